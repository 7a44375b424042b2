# crossflash_warnings(TARGET): the warnings, sanitizers and flags every target of ours is built with.
function(crossflash_warnings target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>"
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CROSSFLASH_WERROR}>>:-Werror>"
    # The compiler must not fuse a multiplication and an addition where the reference writes two.
    "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>")
  if(CROSSFLASH_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CROSSFLASH_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${CROSSFLASH_SANITIZE})
  endif()
endfunction()
