# Options, and one line for each that says what was found and what its absence costs.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG" CACHE STRING "")

option(PLAIT_WERROR "Treat warnings as errors" OFF)
option(PLAIT_PROVE "Prove each plan before it runs, unless PLAIT_PROVE=off says otherwise" OFF)
option(PLAIT_FUZZ "Build the fuzzers (clang)" OFF)
set(PLAIT_FUZZ_SECONDS 10 CACHE STRING "How long ctest runs each fuzzer")
set(PLAIT_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")

add_library(plait_warnings INTERFACE)
target_compile_options(plait_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wformat=2 -Wundef)
if(PLAIT_WERROR)
    target_compile_options(plait_warnings INTERFACE -Werror)
endif()

if(PLAIT_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PLAIT_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang or --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(PLAIT_SANITIZE)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(plait_warnings INTERFACE -Wno-maybe-uninitialized) # gcc guesses wrongly there
    endif()
    add_compile_options(-fsanitize=${PLAIT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${PLAIT_SANITIZE})
endif()
