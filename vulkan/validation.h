// SPDX-License-Identifier: MIT
// validation.h: what an instance asks of the validation layer, if the environment wants it.
#pragma once

#include <vector>

#include "vulkan/loader.h"

namespace crossflash::vulkan {

// CROSSFLASH_VALIDATION=1.
bool validation_wanted();

// Fails if the layer, or its synchronization validation, is not installed.
Status check_validation(const Functions& functions);

// Owns the structures that VkInstanceCreateInfo points to; it must outlive the call.
class ValidationRequest {
 public:
  ValidationRequest();
  ValidationRequest(const ValidationRequest&) = delete;
  ValidationRequest& operator=(const ValidationRequest&) = delete;

  const void* chain() const { return &features_; }
  const VkDebugUtilsMessengerCreateInfoEXT& messenger() const { return messenger_; }
  const char* layer() const { return layer_; }
  const std::vector<const char*>& extensions() const { return extensions_; }

 private:
  const char* layer_;
  std::vector<const char*> extensions_;
  VkDebugUtilsMessengerCreateInfoEXT messenger_{};
  VkValidationFeaturesEXT features_{};
};

}  // namespace crossflash::vulkan
