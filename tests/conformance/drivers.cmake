# Which Vulkan drivers of this machine the suite runs on. Each is an ICD manifest; a driver that is
# not there is reported, and is an error if CROSSFLASH_REQUIRE_DRIVERS names it.
set(CROSSFLASH_REQUIRE_DRIVERS "" CACHE STRING
  "Vulkan drivers without which configuring fails: lavapipe, swiftshader, validation")
set(CROSSFLASH_SWIFTSHADER_ICD "" CACHE FILEPATH "SwiftShader's vk_swiftshader_icd.json")

set(vulkan_folders
  /usr/share/vulkan /usr/local/share/vulkan /etc/vulkan /opt/homebrew/share/vulkan)
find_file(CROSSFLASH_LAVAPIPE_ICD
  NAMES "lvp_icd.${CMAKE_SYSTEM_PROCESSOR}.json" lvp_icd.json
  PATHS ${vulkan_folders} PATH_SUFFIXES icd.d NO_DEFAULT_PATH
  DOC "lavapipe's (Mesa's CPU driver) ICD manifest")
find_file(CROSSFLASH_VALIDATION_LAYER
  NAMES VkLayer_khronos_validation.json
  PATHS ${vulkan_folders} PATH_SUFFIXES explicit_layer.d NO_DEFAULT_PATH
  DOC "the Khronos validation layer's manifest")

# The manifest's path in `variable` if the driver is there; else says so, or fails.
function(find_driver name manifest hint variable)
  if(manifest AND EXISTS "${manifest}")
    set(${variable} "${manifest}" PARENT_SCOPE)
    return()
  endif()
  set(${variable} "" PARENT_SCOPE)
  if(name IN_LIST CROSSFLASH_REQUIRE_DRIVERS)
    message(FATAL_ERROR
      "CROSSFLASH_REQUIRE_DRIVERS names ${name}, which was not found: ${hint}")
  endif()
  message(STATUS "conformance: no ${name}, its tests are left out (${hint})")
endfunction()

foreach(required IN LISTS CROSSFLASH_REQUIRE_DRIVERS)
  if(NOT required MATCHES "^(lavapipe|swiftshader|validation)$")
    message(FATAL_ERROR "CROSSFLASH_REQUIRE_DRIVERS names ${required}, which is no driver of this list")
  endif()
endforeach()
if(NOT CROSSFLASH_VULKAN)
  if(CROSSFLASH_REQUIRE_DRIVERS)
    message(FATAL_ERROR
      "CROSSFLASH_REQUIRE_DRIVERS is ${CROSSFLASH_REQUIRE_DRIVERS}, but CROSSFLASH_VULKAN is off")
  endif()
  message(STATUS "conformance: CROSSFLASH_VULKAN is off, no Vulkan driver is tested")
  return()
endif()

find_driver(lavapipe "${CROSSFLASH_LAVAPIPE_ICD}" "install mesa-vulkan-drivers" lavapipe_icd)
find_driver(swiftshader "${CROSSFLASH_SWIFTSHADER_ICD}"
  "set CROSSFLASH_SWIFTSHADER_ICD to its manifest" swiftshader_icd)
find_driver(validation "${CROSSFLASH_VALIDATION_LAYER}" "install vulkan-validationlayers"
  validation_layer)

# Everything under the validation layer and on the smallest limits that Vulkan allows; tiles of GPUs, for
# these drivers have their own; large extents.
foreach(driver lavapipe swiftshader)
  set(icd "${${driver}_icd}")
  if(NOT icd)
    continue()
  endif()
  # The loader's older and newer name of the same variable.
  set(env CROSSFLASH_BACKEND=vulkan "VK_ICD_FILENAMES=${icd}" "VK_DRIVER_FILES=${icd}")
  set(validation "")
  if(validation_layer)
    set(validation CROSSFLASH_VALIDATION=1)
  endif()
  set(filter "*")
  set(floor_cases ${case_files} --random 100 --seed 2)
  if(driver STREQUAL "swiftshader")  # several times slower
    set(filter "-pair.*/staged")
    set(floor_cases --no-scenarios --random 50 --seed 2)
    foreach(file smoke gqa masks types dropout options shapes)
      list(APPEND floor_cases "${cases_dir}/${file}.txt")
    endforeach()
  endif()
  conformance_test(${driver} TIMEOUT 3600
    ENVIRONMENT ${env} ${validation} "GTEST_FILTER=${filter}"
    ARGUMENTS ${case_files} --all-options --random 100)
  conformance_test(${driver}.floor TIMEOUT 3600
    ENVIRONMENT ${env} CROSSFLASH_LIMITS=floor ARGUMENTS ${floor_cases})
  conformance_test(${driver}.gpu TIMEOUT 3600
    ENVIRONMENT ${env} CROSSFLASH_LIMITS=gpu
    ARGUMENTS "${cases_dir}/smoke.txt" "${cases_dir}/gqa.txt" "${cases_dir}/dropout.txt" --no-scenarios)
  if(driver STREQUAL "lavapipe")  # SwiftShader would take a quarter of an hour
    conformance_test(${driver}.big TIMEOUT 3600
      ENVIRONMENT ${env} ARGUMENTS "${cases_dir}/big.txt" --no-scenarios)
  endif()
  # Bindings smaller than the tensors and a handful of workgroups to a dispatch.
  conformance_test(${driver}.tiny TIMEOUT 3600
    ENVIRONMENT ${env} CROSSFLASH_LIMITS=floor,range=65536,groups=7
    ARGUMENTS "${cases_dir}/smoke.txt" "${cases_dir}/gqa.txt" "${cases_dir}/masks.txt" --no-scenarios)
endforeach()
