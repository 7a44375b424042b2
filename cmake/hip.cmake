# hip.cmake: for whose GPUs the HIP backend is built, and with which compiler. Sets
# CROSSFLASH_HIP_PLATFORM to AMD, NVIDIA or OFF. A machine with neither compiler pays three look-ups.
# OFF until every unit has been compiled for every architecture of the defaults: opt in.
set(CROSSFLASH_HIP OFF CACHE STRING
  "HIP backend: AMD, NVIDIA, OFF, or AUTO, which is whichever compiler is found")
set_property(CACHE CROSSFLASH_HIP PROPERTY STRINGS AUTO AMD NVIDIA OFF)
set(CROSSFLASH_HIP_ARCHITECTURES "" CACHE STRING
  "GPUs to compile for, as gfx942;gfx1100 or 80-real;90a-real; empty: a list for the platform")
set(CROSSFLASH_AMD_PREFIX "" CACHE PATH
  "What scripts/amd-toolchain made, on a machine without ROCm; empty: ROCm's own")
set(CROSSFLASH_HIP_HEADERS "" CACHE PATH
  "Folder with a HIP for NVIDIA of your own (hip/hip_runtime_api.h); empty: CUDA's names directly")

if(NOT CROSSFLASH_HIP MATCHES "^(AMD|NVIDIA|OFF|AUTO)$")
  message(FATAL_ERROR "CROSSFLASH_HIP is ${CROSSFLASH_HIP}; it must be AMD, NVIDIA, OFF or AUTO")
endif()

function(crossflash_choose_hip_platform variable)
  set(${variable} "${CROSSFLASH_HIP}" PARENT_SCOPE)
  if(NOT CROSSFLASH_HIP STREQUAL "AUTO")
    return()
  endif()
  if(CROSSFLASH_AMD_PREFIX)
    set(${variable} AMD PARENT_SCOPE)
    return()
  endif()
  find_program(CROSSFLASH_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda
    PATH_SUFFIXES bin DOC "NVIDIA's compiler")
  find_program(CROSSFLASH_HIPCC hipcc HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES bin
    DOC "ROCm's compiler")
  mark_as_advanced(CROSSFLASH_NVCC CROSSFLASH_HIPCC)
  if(CROSSFLASH_NVCC)
    # It may be there and not work, for want of a host compiler that it knows.
    set(ENV{CUDACXX} "${CROSSFLASH_NVCC}")
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(${variable} NVIDIA PARENT_SCOPE)
      return()
    endif()
  endif()
  set(${variable} OFF PARENT_SCOPE)
  if(CROSSFLASH_HIPCC)
    set(${variable} AMD PARENT_SCOPE)
  endif()
endfunction()
crossflash_choose_hip_platform(CROSSFLASH_HIP_PLATFORM)
message(STATUS "HIP backend: ${CROSSFLASH_HIP_PLATFORM}")

if(CROSSFLASH_HIP_PLATFORM STREQUAL "NVIDIA")
  if(NOT CROSSFLASH_HIP_ARCHITECTURES)
    set(CROSSFLASH_HIP_ARCHITECTURES "80;90a-real")  # 80's PTX serves what came after
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${CROSSFLASH_HIP_ARCHITECTURES}")
  if(NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(ENV{CUDACXX} /usr/local/cuda/bin/nvcc)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # known from CMake 3.26 on
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
elseif(CROSSFLASH_HIP_PLATFORM STREQUAL "AMD")
  if(NOT CROSSFLASH_HIP_ARCHITECTURES)
    set(CROSSFLASH_HIP_ARCHITECTURES gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1151 gfx1201)
  endif()
  set(CMAKE_HIP_ARCHITECTURES "${CROSSFLASH_HIP_ARCHITECTURES}")
  if(CROSSFLASH_AMD_PREFIX)
    if(NOT EXISTS "${CROSSFLASH_AMD_PREFIX}/bin/amdclang++")
      message(FATAL_ERROR "CROSSFLASH_AMD_PREFIX is ${CROSSFLASH_AMD_PREFIX}, which has no "
        "bin/amdclang++: make it with scripts/amd-toolchain ${CROSSFLASH_AMD_PREFIX}")
    endif()
    set(CMAKE_HIP_COMPILER "${CROSSFLASH_AMD_PREFIX}/bin/amdclang++")
    set(CMAKE_HIP_COMPILER_ROCM_ROOT "${CROSSFLASH_AMD_PREFIX}")
    string(JOIN " " CMAKE_HIP_FLAGS "--rocm-path=${CROSSFLASH_AMD_PREFIX}"
      "-isystem ${CROSSFLASH_AMD_PREFIX}/include"
      "-include ${CROSSFLASH_AMD_PREFIX}/include/wavefront_size_compat.h")
  endif()
  enable_language(HIP)
  # Where identification fails CMake goes on, without -O3 and -std.
  if(NOT CMAKE_HIP_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CMAKE_HIP_COMPILER is ${CMAKE_HIP_COMPILER}, which CMake did not recognise "
      "as clang: it must be ROCm's clang++ or that of scripts/amd-toolchain, and must link")
  endif()
  set(CMAKE_HIP_STANDARD 20)
  set(CMAKE_HIP_STANDARD_REQUIRED ON)
endif()
