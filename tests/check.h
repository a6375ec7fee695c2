/* What every test includes: cmocka and the headers it wants before it. */
#ifndef PLAIT_TESTS_CHECK_H
#define PLAIT_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* cmocka_run_group_tests() for a table whose length is known at run time. */
#define check_run(name, tests, count) _cmocka_run_group_tests((name), (tests), (count), NULL, NULL)

#endif
