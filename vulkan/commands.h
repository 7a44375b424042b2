// SPDX-License-Identifier: MIT
// commands.h: what every command buffer of ours needs: a pool of its own, one-time recording, and
// the barrier that orders runs on the one queue.
#pragma once

#include "vulkan/context.h"

namespace crossflash::vulkan {

// A pool with one primary command buffer, which lives as long as the pool.
Status create_commands(Context& context, OwnedCommandPool* pool, VkCommandBuffer* commands);
// Forgets what was recorded and starts anew; the command buffer must not be in use.
Status begin_commands(Context& context, VkCommandPool pool, VkCommandBuffer commands);

// First and last in every command buffer. Barriers outside render passes reach over submissions to
// everything earlier and later on the queue, so this alone makes runs and copies see each other's
// writes, and the host (once it waited for the fence) see all of them.
void full_barrier(const Functions& functions, VkCommandBuffer commands);
// Between dispatches of one run.
void compute_barrier(const Functions& functions, VkCommandBuffer commands);

}  // namespace crossflash::vulkan
