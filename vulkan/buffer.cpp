// SPDX-License-Identifier: MIT
#include "vulkan/buffer.h"

#include <algorithm>
#include <optional>
#include <span>

namespace crossflash::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                          VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                          VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
// Kinds of memory that need a feature of their own or that compute cannot use.
constexpr VkMemoryPropertyFlags kNever =
    VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;

struct Wish {
  VkMemoryPropertyFlags with, without;
};

// Wishes in order. Uncached mapped memory is read so slowly that copying through staging wins.
constexpr Wish kUnified[] = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | kMapped, 0},
                             {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                             {0, 0}};
// Device-local memory that the host sees too is often a small window, left to others.
constexpr Wish kDiscrete[] = {
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT},
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
    {0, 0}};
constexpr Wish kStaging[] = {
    {kMapped, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
    {kMapped, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0}};

std::span<const Wish> wishes(Buffer::Kind kind, bool unified) {
  if (kind == Buffer::Kind::staging) return kStaging;
  if (unified) return kUnified;
  return kDiscrete;
}

std::optional<std::uint32_t> memory_type(const VkPhysicalDeviceMemoryProperties& memory,
                                         const VkMemoryRequirements& needs,
                                         std::span<const Wish> wanted) {
  for (const Wish& wish : wanted)
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const VkMemoryType& type = memory.memoryTypes[i];
      if ((needs.memoryTypeBits & (1u << i)) != 0 &&
          (type.propertyFlags & wish.with) == wish.with &&
          (type.propertyFlags & (wish.without | kNever)) == 0 &&
          memory.memoryHeaps[type.heapIndex].size >= needs.size)
        return i;
    }
  return std::nullopt;
}

VkBufferUsageFlags usage(Buffer::Kind kind) {
  constexpr VkBufferUsageFlags kCopy =
      VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  switch (kind) {
    case Buffer::Kind::storage:
      return kCopy | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    case Buffer::Kind::uniform:
      return kCopy | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
    case Buffer::Kind::staging:
      break;
  }
  return kCopy;
}

}  // namespace

Status Buffer::create(Context& context, VkDeviceSize bytes, Kind kind,
                      std::unique_ptr<Buffer>* out) {
  VkDeviceSize largest = 0;
  const VkPhysicalDeviceMemoryProperties& memory = context.physical().memory;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    largest = std::max(largest, memory.memoryHeaps[i].size);
  if (bytes > largest)
    return device_error("a buffer of {} bytes exceeds the device's memory of {} bytes", bytes,
                        largest);

  std::unique_ptr<Buffer> buffer(new Buffer);
  buffer->bytes_ = std::max<VkDeviceSize>((bytes + 3) / 4 * 4, 4);
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = buffer->bytes_;
  info.usage = usage(kind);
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  CROSSFLASH_TRY(vulkan::create(context.functions(), context.device(),
                                context.functions().vkCreateBuffer, "vkCreateBuffer", info,
                                &buffer->buffer_));
  CROSSFLASH_TRY(buffer->allocate(context, kind));
  *out = std::move(buffer);
  return {};
}

Status Buffer::allocate(Context& context, Kind kind) {
  const Functions& functions = context.functions();
  const PhysicalDevice& physical = context.physical();
  VkMemoryRequirements needs{};
  functions.vkGetBufferMemoryRequirements(context.device(), buffer_.get(), &needs);
  const auto type = memory_type(physical.memory, needs, wishes(kind, physical.unified));
  if (!type)
    return device_error("a buffer of {} bytes finds no memory on the device that suits it", bytes_);

  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = needs.size;
  info.memoryTypeIndex = *type;
  const Status allocated = vulkan::create(functions, context.device(), functions.vkAllocateMemory,
                                          "vkAllocateMemory", info, &memory_);
  if (!allocated.ok()) return device_error("a buffer of {} bytes: {}", bytes_, allocated.text());
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkBindBufferMemory, context.device(),
                                        buffer_.get(), memory_.get(), 0));

  const bool visible = (physical.memory.memoryTypes[*type].propertyFlags & kMapped) == kMapped;
  if (kind != Kind::staging && !(physical.unified && visible)) return {};
  void* address = nullptr;
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(functions, vkMapMemory, context.device(), memory_.get(), 0,
                                        VK_WHOLE_SIZE, 0, &address));
  if (address == nullptr) return device_error("vkMapMemory reported success but mapped nothing");
  mapped_ = static_cast<std::byte*>(address);
  return {};
}

}  // namespace crossflash::vulkan
