// SPDX-License-Identifier: MIT
#include "common/reference/attention.h"
