# What Plait can use when it is there: PLAIT_WITH_<NAME> is AUTO, ON or OFF, and one line for each
# says what was found and what its absence costs. None is needed to load libplait.so.

# plait_with(NAME FOUND PACKAGE GAIN COST) sets PLAIT_HAS_<NAME>. FOUND names what was found, or is "".
function(plait_with name found package gain cost)
    set(PLAIT_WITH_${name} AUTO CACHE STRING "AUTO, ON or OFF: ${gain}")
    set_property(CACHE PLAIT_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
    string(TOUPPER "${PLAIT_WITH_${name}}" wanted)
    if(wanted STREQUAL "AUTO" AND found)
        message(STATUS "PLAIT_WITH_${name}: ${found} found: ${gain}")
    elseif(wanted STREQUAL "AUTO")
        message(STATUS "PLAIT_WITH_${name}: not found (${package}): ${cost}")
    elseif(wanted MATCHES "^(ON|1|YES|TRUE|Y)$" AND found)
        message(STATUS "PLAIT_WITH_${name}: ${found} found, as asked for: ${gain}")
    elseif(wanted MATCHES "^(ON|1|YES|TRUE|Y)$")
        message(FATAL_ERROR "PLAIT_WITH_${name} is ON and it was not found: install ${package}, or set it to AUTO")
    elseif(wanted MATCHES "^(OFF|0|NO|FALSE|N)$")
        message(STATUS "PLAIT_WITH_${name}: off, as asked for: ${cost}")
        set(found "")
    else()
        message(FATAL_ERROR "PLAIT_WITH_${name} is '${PLAIT_WITH_${name}}'; good values: AUTO, ON, OFF")
    endif()
    if(found)
        set(PLAIT_HAS_${name} ON PARENT_SCOPE)
    else()
        set(PLAIT_HAS_${name} OFF PARENT_SCOPE)
    endif()
endfunction()

set(found "")
pkg_check_modules(LIBFABRIC QUIET IMPORTED_TARGET libfabric)
if(LIBFABRIC_FOUND)
    set(found "libfabric ${LIBFABRIC_VERSION}")
endif()
plait_with(LIBFABRIC "${found}" "libfabric-dev"
    "carries ranks on several hosts; opened at run time, when they are"
    "ranks can't be on several hosts")

set(found "")
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
    set(found "CUDA ${CUDAToolkit_VERSION}")
endif()
plait_with(CUDA "${found}" "nvidia-cuda-toolkit"
    "will reduce tensors on GPUs (this version handles host memory)"
    "nothing today (this version handles host memory); later, tensors on GPUs")

set(found "")
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
    set(found "MPI ${MPI_C_VERSION}")
endif()
plait_with(MPI "${found}" "libopenmpi-dev"
    "builds libplait-mpi.so, for launchers that speak neither PMIx nor PMI"
    "no libplait-mpi.so: ranks of launchers that speak neither PMIx nor PMI need MASTER_ADDR")

set(found "")
find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
if(Python3_FOUND)
    set(found "Python ${Python3_VERSION}")
endif()
plait_with(PYTHON "${found}" "python3-dev"
    "pip install ./python builds the PyTorch process group"
    "the PyTorch process group can't be built")

set(PLAIT_TESTS AUTO CACHE STRING "AUTO, ON or OFF: build the tests")
set_property(CACHE PLAIT_TESTS PROPERTY STRINGS AUTO ON OFF)
if(PLAIT_TESTS)
    pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
    if(CMOCKA_FOUND)
        message(STATUS "PLAIT_TESTS: cmocka ${CMOCKA_VERSION} found: ctest runs the tests")
    elseif(PLAIT_TESTS STREQUAL "AUTO")
        message(STATUS "PLAIT_TESTS: cmocka not found (libcmocka-dev): no tests are built")
    else()
        message(FATAL_ERROR "PLAIT_TESTS is ON and cmocka was not found: install libcmocka-dev, or set it to AUTO")
    endif()
endif()
