# One CMake target for each folder of src/. A module sees the public headers and the modules it names.
#
#   luminal_module(symbolic DEPS base egraph LIBS fmt::fmt)
#
# builds libluminal_symbolic.a from src/symbolic/**/*.cpp and, when tests are on, test_symbolic from
# tests/unit/symbolic/*.cpp with the CTest label "unit". New files are picked up by the glob.
#
#   luminal_module(cli DEPS base formats LIBS CLI11::CLI11 PROGRAM luminal)
#
# links src/cli/main.cpp with the rest of the module into the program `luminal` as well.
set_property(GLOBAL PROPERTY LUMINAL_MODULES "")
# What the installed archives are linked with, as linker flags: the CMake package and the pkg-config file say the same.
set_property(GLOBAL PROPERTY LUMINAL_LINK_FLAGS "")

# Links a module with third-party libraries. Public headers show none of them, so that a program that uses the
# installed package needs neither their headers nor their CMake files: it links the library files by name. What is
# headers alone leaves no trace.
function(luminal_link_libraries target)
  set(flag_of_fmt::fmt -lfmt)
  set(flag_of_spdlog::spdlog -lspdlog)
  set(flag_of_xxhash -lxxhash)
  set(flag_of_gmp -lgmp)
  set(flag_of_pcre2-8 -lpcre2-8)
  set(flag_of_utf8proc -lutf8proc)
  set(flag_of_ZLIB::ZLIB -lz)
  set(flag_of_SQLite::SQLite3 -lsqlite3)
  set(flag_of_Threads::Threads -pthread)
  set(flag_of_${LLVM_LIBRARY} ${LLVM_LIBRARY})
  set(flag_of_${HTTPLIB_LIBRARY} ${HTTPLIB_LIBRARY})
  set(flag_of_nlohmann_json::nlohmann_json "")
  set(flag_of_CLI11::CLI11 "")
  foreach(lib ${ARGN})
    if(NOT DEFINED flag_of_${lib})
      message(FATAL_ERROR "luminal_link_libraries: name the linker flag of ${lib}, or an empty one if it is headers alone")
    endif()
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${lib}>)
    if(flag_of_${lib})
      target_link_libraries(${target} PRIVATE $<INSTALL_INTERFACE:${flag_of_${lib}}>)
      set_property(GLOBAL APPEND PROPERTY LUMINAL_LINK_FLAGS ${flag_of_${lib}})
    endif()
  endforeach()
endfunction()

function(luminal_module name)
  cmake_parse_arguments(M "" "PROGRAM" "DEPS;LIBS;TEST_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  list(REMOVE_ITEM sources "${PROJECT_SOURCE_DIR}/src/${name}/main.cpp")
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
  target_compile_features(luminal_${name} PUBLIC cxx_std_20)  # of the public headers
  target_link_libraries(luminal_${name} PRIVATE $<BUILD_INTERFACE:luminal_flags>)
  luminal_link_libraries(luminal_${name} ${M_LIBS})
  if(M_PROGRAM)
    # It reads options and prints: what runs long stands in the modules before it. But the linker may take its copy
    # of an inline function for all of them, so nothing less than -O2 will do.
    target_compile_options(luminal_${name} PRIVATE -O2)
    add_executable(${M_PROGRAM} "${PROJECT_SOURCE_DIR}/src/${name}/main.cpp")
    target_include_directories(${M_PROGRAM} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${M_PROGRAM} PRIVATE luminal_${name} luminal_flags ${M_LIBS})
    install(TARGETS ${M_PROGRAM} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  else()
    set_property(GLOBAL APPEND PROPERTY LUMINAL_MODULES ${name})
  endif()

  file(GLOB tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${name}/*.cpp")
  if(LUMINAL_BUILD_TESTS AND tests)
    # A module's own tests judge the module, so graphs run on the oracle unless a test names a device.
    luminal_test(test_${name} LABEL unit SOURCES ${tests} DEPS ${name} LIBS ${M_LIBS} ${M_TEST_LIBS}
                 PROPERTIES ENVIRONMENT "LUMINAL_DEVICE=reference")
  endif()
endfunction()

# Embeds the .egg files of a folder into a module, as rule_files() of its rule_files.h.
function(luminal_embed_rules module folder)
  file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.egg")
  list(JOIN files "|" joined)
  set(out "${CMAKE_BINARY_DIR}/${module}_rules.cpp")
  add_custom_command(OUTPUT "${out}"
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DFILES=${joined}" -P "${PROJECT_SOURCE_DIR}/cmake/EmbedRules.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/EmbedRules.cmake" VERBATIM)
  target_sources(luminal_${module} PRIVATE "${out}")
endfunction()

# Embeds a text file into a module: what the function `namespace::function` returns, a std::string_view.
function(luminal_embed_text module file namespace function)
  set(out "${CMAKE_BINARY_DIR}/${module}_${function}.cpp")
  add_custom_command(OUTPUT "${out}"
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DFILE=${PROJECT_SOURCE_DIR}/${file}" "-DNAMESPACE=${namespace}"
            "-DFUNCTION=${function}" -P "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake"
    DEPENDS "${file}" "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake" VERBATIM)
  target_sources(luminal_${module} PRIVATE "${out}")
endfunction()

# A version of the code that compiles and runs plans: a hash over the headers and the sources of these modules.
function(luminal_source_version module)
  set(files "")
  foreach(folder include ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.h" "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
    list(APPEND files ${found})
  endforeach()
  list(JOIN files "|" joined)
  set(out "${CMAKE_BINARY_DIR}/${module}_source_version.cpp")
  add_custom_command(OUTPUT "${out}"
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DFILES=${joined}" -P "${PROJECT_SOURCE_DIR}/cmake/SourceVersion.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/SourceVersion.cmake" VERBATIM)
  target_sources(luminal_${module} PRIVATE "${out}")
endfunction()

# The library a user links: luminal::luminal stands for all modules built.
function(luminal_umbrella)
  get_property(modules GLOBAL PROPERTY LUMINAL_MODULES)
  add_library(luminal_all INTERFACE)
  add_library(luminal::luminal ALIAS luminal_all)
  set_target_properties(luminal_all PROPERTIES EXPORT_NAME luminal)
  list(TRANSFORM modules PREPEND luminal_ OUTPUT_VARIABLE targets)
  target_link_libraries(luminal_all INTERFACE ${targets})
endfunction()

# Tests remember what they tuned in the build folder, never in the user's own cache.
set(LUMINAL_TEST_CACHE "LUMINAL_CACHE=set:${CMAKE_BINARY_DIR}/cache")

# luminal_test(NAME LABEL label SOURCES ... DEPS modules... LIBS ...): a GoogleTest program, each test known to CTest.
function(luminal_test name)
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS;LIBS;DEFS;PROPERTIES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE LUMINAL_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${T_DEFS})
  foreach(dep ${T_DEPS})
    target_link_libraries(${name} PRIVATE luminal_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE luminal_flags GTest::gtest GTest::gmock GTest::gtest_main ${T_LIBS})
  target_compile_options(${name} PRIVATE -O1)  # tests are compiled more often than they run
  if(LUMINAL_SANITIZE)
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)  # the library's arithmetic is judged
  endif()
  # What tests start as a process of its own stands in disabled tests of suites called ...Child.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "-*Child.DISABLED_*" NO_PRETTY_VALUES NO_PRETTY_TYPES PROPERTIES LABELS ${T_LABEL} TIMEOUT 600
    ENVIRONMENT_MODIFICATION "${LUMINAL_TEST_CACHE}" ${T_PROPERTIES})
endfunction()

# Tests that belong to no single module: tests/op/*.cpp become suite_op with the CTest label "op", and so on.
# They see the whole library. tests/unit/house checks the source tree itself.
function(luminal_test_folders)
  foreach(folder ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp")
    if(sources)
      get_filename_component(short ${folder} NAME)
      string(REGEX REPLACE "/.*" "" label ${folder})
      luminal_test(suite_${short} LABEL ${label} SOURCES ${sources} DEPS cli all LIBS fmt::fmt nlohmann_json::nlohmann_json)
    endif()
  endforeach()
endfunction()

# Each examples/NAME.cpp is a program example_NAME that sees public headers only, and a test (label "example")
# that runs it; what a long example needs to be short as a test stands in LUMINAL_EXAMPLE_ARGS_<NAME>.
function(luminal_examples)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE luminal_all luminal_flags)
    if(LUMINAL_BUILD_TESTS)
      add_test(NAME example.${name} COMMAND example_${name} ${LUMINAL_EXAMPLE_ARGS_${name}}
               WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      set_tests_properties(example.${name} PROPERTIES LABELS example TIMEOUT 300
                           ENVIRONMENT_MODIFICATION "${LUMINAL_TEST_CACHE}")
    endif()
  endforeach()
endfunction()

# Each folder bench/NAME is a Google Benchmark program bench_NAME; `make bench` runs them all.
function(luminal_benches)
  find_package(benchmark REQUIRED)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/bench/*")
  foreach(folder ${folders})
    file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
    if(sources)
      get_filename_component(name ${folder} NAME)
      add_executable(bench_${name} ${sources})
      target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
      target_compile_definitions(bench_${name} PRIVATE LUMINAL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
      target_link_libraries(bench_${name} PRIVATE luminal_all luminal_flags fmt::fmt benchmark::benchmark
                                                  benchmark::benchmark_main)
    endif()
  endforeach()
endfunction()

# Installs into a throw-away prefix and builds a program against it, as a user's project would.
function(luminal_package_test)
  add_test(NAME package.consumer COMMAND "${PROJECT_SOURCE_DIR}/tests/package/run.sh" "${CMAKE_BINARY_DIR}"
           "${CMAKE_CXX_COMPILER}")
  # The longest test starts first, so that it does not run alone at the end.
  set_tests_properties(package.consumer PROPERTIES LABELS package TIMEOUT 300 COST 1000
                       ENVIRONMENT_MODIFICATION "${LUMINAL_TEST_CACHE}")
endfunction()
