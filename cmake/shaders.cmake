# crossflash_shader(NAME SOURCE [DEFINES...]): compiles SOURCE to the SPIR-V module NAME and appends
#   to the caller's lists `spirv_files`, `spirv_texts` (the module as C numbers) and
#   `spirv_declarations` (C++ arrays of them, spirv_NAME). An edited include rebuilds it.
# crossflash_spirv_header(TARGET SOURCE NAMESPACE): writes spirv.h with those arrays, for SOURCE alone.
find_program(GLSLC glslc)
find_program(SPIRV_VAL spirv-val)  # checks what glslc made, where it is installed

macro(crossflash_shader name source)
  set(spirv "${CMAKE_CURRENT_BINARY_DIR}/${name}.spv")
  set(text "${CMAKE_CURRENT_BINARY_DIR}/${name}.spv.inc")
  set(defines ${ARGN})
  list(TRANSFORM defines PREPEND -D)
  set(compile "${GLSLC}" --target-env=vulkan1.1 -O -Werror ${defines}
    "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  set(validate "")
  if(SPIRV_VAL)
    set(validate COMMAND "${SPIRV_VAL}" --target-env vulkan1.1 "${spirv}")
  endif()
  add_custom_command(OUTPUT "${spirv}" "${text}"
    COMMAND ${compile} -MD -MF "${spirv}.d" -o "${spirv}"
    ${validate}
    COMMAND ${compile} -mfmt=c -o "${text}"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    DEPFILE "${spirv}.d"
    COMMENT "Shader ${name}" VERBATIM)
  list(APPEND spirv_files "${spirv}")
  list(APPEND spirv_texts "${text}")
  string(APPEND spirv_declarations
    "const std::uint32_t spirv_${name}[] =\n#include \"${text}\"\n    ;\n")
endmacro()

macro(crossflash_spirv_header target source namespace)
  set(spirv_namespace "${namespace}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/spirv.h.in" "${CMAKE_CURRENT_BINARY_DIR}/spirv.h" @ONLY)
  add_custom_target(${target}_shaders DEPENDS ${spirv_texts})
  add_dependencies(${target} ${target}_shaders)
  set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES
    OBJECT_DEPENDS "${spirv_texts}"
    INCLUDE_DIRECTORIES "${CMAKE_CURRENT_BINARY_DIR}")
endmacro()
