# The HIP backend compiled for the GPUs of both vendors, each in a build folder of its own: kernels
# without scratch memory, programs that start without a GPU. A compiler that is not here is a test
# that is skipped and says why, and an error if CROSSFLASH_REQUIRE_HIP names its platform.
option(CROSSFLASH_HIP_BUILDS "Test builds of the HIP backend, for AMD and for NVIDIA" ON)
set(CROSSFLASH_REQUIRE_HIP "" CACHE STRING
  "Platforms of the HIP backend without whose compilers configuring fails: AMD, NVIDIA")
foreach(required IN LISTS CROSSFLASH_REQUIRE_HIP)
  if(NOT required MATCHES "^(AMD|NVIDIA)$")
    message(FATAL_ERROR "CROSSFLASH_REQUIRE_HIP names ${required}; it must be AMD or NVIDIA")
  endif()
endforeach()
if(NOT CROSSFLASH_HIP_BUILDS)
  return()
endif()

# hip_build(PLATFORM "GPU;..." COMPILER HINT OPTION...): the test hip.<platform>, if COMPILER is one.
include(ProcessorCount)
ProcessorCount(processors)
function(hip_build platform gpus compiler hint)
  string(TOLOWER "hip.${platform}" name)
  if(NOT compiler)
    if(platform IN_LIST CROSSFLASH_REQUIRE_HIP)
      message(FATAL_ERROR "CROSSFLASH_REQUIRE_HIP names ${platform}, which cannot be built: ${hint}")
    endif()
    message(STATUS "${name}: skipped, the HIP backend is not compiled for ${platform}: ${hint}")
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: ${hint}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: ")
    return()
  endif()
  string(REPLACE "." "-" folder "${name}")
  add_test(NAME ${name} COMMAND "${CMAKE_CTEST_COMMAND}"
    --build-and-test "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/${folder}"
    --build-generator "${CMAKE_GENERATOR}" --build-noclean --build-target crossflash_hip_checks
    --build-options
      -DCMAKE_BUILD_TYPE=Release
      "-DCROSSFLASH_HIP=${platform}"
      "-DCROSSFLASH_HIP_ARCHITECTURES=${gpus}"
      -DCROSSFLASH_HIP_BUILDS=OFF
      -DCROSSFLASH_VULKAN=OFF
      -DCROSSFLASH_WERROR=ON
      -DCMAKE_REQUIRE_FIND_PACKAGE_Python3=ON  # without it nobody would look for scratch memory
      ${ARGN}
    --test-command "${CMAKE_CTEST_COMMAND}" --output-on-failure --no-tests=error -L hip)
  set_tests_properties(${name} PROPERTIES PROCESSORS ${processors} TIMEOUT 3600)
endfunction()

crossflash_find_nvcc(nvcc)
hip_build(NVIDIA "80;90a-real" "${nvcc}" "there is no nvcc of CUDA 12 or newer that works")

# ROCm, or what scripts/amd-toolchain made; hipify-perl is part of both.
if(NOT CROSSFLASH_AMD_PREFIX AND EXISTS "${PROJECT_SOURCE_DIR}/build/amd-toolchain/bin/amdclang++")
  set(CROSSFLASH_AMD_PREFIX "${PROJECT_SOURCE_DIR}/build/amd-toolchain")
endif()
set(amd "${CROSSFLASH_AMD_PREFIX}")
if(NOT amd)
  crossflash_find_rocm(amd)
endif()
crossflash_find_hipify(hipify)
if(amd AND NOT hipify)
  hip_build(AMD "" "" "there is no hipify-perl")
else()
  hip_build(AMD "gfx942;gfx1100" "${amd}"
    "there is no ROCm; scripts/amd-toolchain build/amd-toolchain makes what compiles without it"
    "-DCROSSFLASH_AMD_PREFIX=${CROSSFLASH_AMD_PREFIX}")
endif()
