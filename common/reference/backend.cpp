// SPDX-License-Identifier: MIT
#include "common/backend.h"
