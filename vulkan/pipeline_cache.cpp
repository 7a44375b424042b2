// SPDX-License-Identifier: MIT
#include "vulkan/pipeline_cache.h"

#include <cstring>

namespace crossflash::vulkan {
namespace {

struct Envelope {
  char mark[8];
  std::uint64_t bytes;  // of the driver's data behind it
  std::uint64_t checksum;
};
constexpr char kMark[8] = {'c', 'f', '-', 'v', 'k', '-', '0', '1'};

// FNV-1a, 64 bits.
std::uint64_t checksum_of(std::span<const std::byte> data) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : data)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace

Status PipelineCache::create(const Functions& functions, VkDevice device,
                             const VkPhysicalDeviceProperties& properties) {
  functions_ = &functions;
  device_ = device;
  properties_ = properties;
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  return vulkan::create(functions, device, functions.vkCreatePipelineCache, "vkCreatePipelineCache",
                        info, &cache_);
}

Status PipelineCache::save(std::vector<std::byte>* out) const {
  const std::lock_guard lock(mutex_);  // so that the size cannot grow between the two calls
  std::size_t bytes = 0;
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(*functions_, vkGetPipelineCacheData, device_, cache_.get(),
                                        &bytes, nullptr));
  out->resize(sizeof(Envelope) + bytes);
  std::byte* data = out->data() + sizeof(Envelope);
  CROSSFLASH_TRY(CROSSFLASH_VULKAN_CALL(*functions_, vkGetPipelineCacheData, device_, cache_.get(),
                                        &bytes, data));
  out->resize(sizeof(Envelope) + bytes);
  Envelope envelope{};
  std::memcpy(envelope.mark, kMark, sizeof(kMark));
  envelope.bytes = bytes;
  envelope.checksum = checksum_of({data, bytes});
  std::memcpy(out->data(), &envelope, sizeof(envelope));
  return {};
}

Status PipelineCache::load(std::span<const std::byte> blob) {
  Envelope envelope{};
  if (blob.size() < sizeof(envelope))
    return invalid("the pipeline cache has {} bytes, less than its header's {}", blob.size(),
                   sizeof(envelope));
  std::memcpy(&envelope, blob.data(), sizeof(envelope));
  if (std::memcmp(envelope.mark, kMark, sizeof(kMark)) != 0) return {};
  const std::span<const std::byte> data = blob.subspan(sizeof(envelope));
  if (data.size() != envelope.bytes)
    return invalid("the pipeline cache has {} bytes of data, but was saved with {}", data.size(),
                   envelope.bytes);
  if (checksum_of(data) != envelope.checksum)
    return invalid("the pipeline cache of {} bytes does not match its checksum", blob.size());
  if (!ours(data)) return {};

  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  OwnedPipelineCache loaded;
  CROSSFLASH_TRY(vulkan::create(*functions_, device_, functions_->vkCreatePipelineCache,
                                "vkCreatePipelineCache", info, &loaded));
  const VkPipelineCache source = loaded.get();
  const std::lock_guard lock(mutex_);
  return CROSSFLASH_VULKAN_CALL(*functions_, vkMergePipelineCaches, device_, cache_.get(), 1,
                                &source);
}

bool PipelineCache::ours(std::span<const std::byte> data) const {
  VkPipelineCacheHeaderVersionOne header{};
  if (data.size() < sizeof(header)) return false;
  std::memcpy(&header, data.data(), sizeof(header));
  return header.headerSize >= sizeof(header) &&
         header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == properties_.vendorID && header.deviceID == properties_.deviceID &&
         std::memcmp(header.pipelineCacheUUID, properties_.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

}  // namespace crossflash::vulkan
