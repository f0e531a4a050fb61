# One CMake target for each folder of src/. A module sees the public headers and the modules it names.
#
#   luminal_module(symbolic DEPS base egraph LIBS fmt::fmt)
#
# builds libluminal_symbolic.a from src/symbolic/**/*.cpp and, when tests are on, test_symbolic from
# tests/unit/symbolic/*.cpp with the CTest label "unit". New files are picked up by the glob.
set_property(GLOBAL PROPERTY LUMINAL_MODULES "")

function(luminal_module name)
  cmake_parse_arguments(M "" "" "DEPS;LIBS;TEST_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_library(luminal_${name} STATIC ${sources})
  add_library(luminal::${name} ALIAS luminal_${name})
  set_target_properties(luminal_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(luminal_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  foreach(dep ${M_DEPS})
    if(TARGET luminal_${dep})
      target_link_libraries(luminal_${name} PUBLIC luminal_${dep})
    endif()
  endforeach()
  # Third-party libraries never show in public headers; BUILD_INTERFACE keeps them out of the compile line of a
  # consumer, and the installed package names what has to be linked.
  foreach(lib ${M_LIBS})
    target_link_libraries(luminal_${name} PRIVATE ${lib})
  endforeach()
  target_link_libraries(luminal_${name} PRIVATE $<BUILD_INTERFACE:luminal_flags>)
  set_property(GLOBAL APPEND PROPERTY LUMINAL_MODULES ${name})

  file(GLOB tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${name}/*.cpp")
  if(LUMINAL_BUILD_TESTS AND tests)
    luminal_test(test_${name} LABEL unit SOURCES ${tests} DEPS ${name} LIBS ${M_LIBS} ${M_TEST_LIBS})
  endif()
endfunction()

# luminal_test(NAME LABEL label SOURCES ... DEPS modules... LIBS ...): a GoogleTest program, each test known to CTest.
function(luminal_test name)
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS;LIBS;DEFS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE LUMINAL_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${T_DEFS})
  foreach(dep ${T_DEPS})
    target_link_libraries(${name} PRIVATE luminal_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE luminal_flags GTest::gtest GTest::gmock GTest::gtest_main ${T_LIBS})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS ${T_LABEL} TIMEOUT 600)
endfunction()
