# starts.cmake: a program built with HIP and installed, so that no path leads to the vendor's runtime,
# starts all the same, finds the backend's module, and says of each device that cannot be used why.
# Run as: cmake -DBUILD=<build folder> -DPREFIX=<where to install> -DBIN=<folder of programs> -P ...
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(ENV{CROSSFLASH_MODULE_PATH} "")
execute_process(COMMAND "${PREFIX}/${BIN}/crossflash" devices --json
  OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)

set(hip 0)
string(JSON count LENGTH "${said}" devices)
math(EXPR last "${count} - 1")
foreach(n RANGE ${last})
  string(JSON device GET "${said}" devices ${n} device)
  string(JSON usable GET "${said}" devices ${n} usable)
  string(JSON reason GET "${said}" devices ${n} reason)
  if(NOT device MATCHES "^hip")
    continue()
  endif()
  math(EXPR hip "${hip} + 1")
  message(STATUS "${device}: usable ${usable}, ${reason}")
  if(NOT usable AND reason STREQUAL "")
    message(FATAL_ERROR "${device} does not say why it cannot be used")
  elseif(reason MATCHES "was not found beside|another version|undefined symbol")
    message(FATAL_ERROR "${device}: the module is not whole")
  endif()
endforeach()
if(hip EQUAL 0)
  message(FATAL_ERROR "no line of the HIP backend in: ${said}")
endif()
