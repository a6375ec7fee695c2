/* The log: levels, sinks, long lines, many threads. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct heard {
    _Atomic int lines, broken;
    plait_log_level level;
    char last[2000];
};

static void hear(void *context, plait_log_level level, const char *line)
{
    struct heard *heard = context;
    heard->level = level;
    snprintf(heard->last, sizeof heard->last, "%s", line);
    atomic_fetch_add(&heard->lines, 1);
}

static void levels_choose_what_is_heard(void **state)
{
    (void)state;
    for (int wanted = PLAIT_LOG_ERROR; wanted <= PLAIT_LOG_DEBUG; wanted++) {
        log_set_level((plait_log_level)wanted);
        for (int level = PLAIT_LOG_ERROR; level <= PLAIT_LOG_DEBUG; level++) {
            struct heard heard = { 0 };
            plait_log_set_sink(hear, &heard);
            log_line((plait_log_level)level, "line %d", level);
            assert_int_equal(heard.lines, level <= wanted);
            assert_int_equal(log_wants((plait_log_level)level), level <= wanted);
            if (level <= wanted)
                assert_int_equal(heard.level, level);
        }
    }
    log_set_level(PLAIT_LOG_WARN);
    plait_log_set_sink(NULL, NULL);
}

static void lines_come_whole_and_without_an_end(void **state)
{
    (void)state;
    struct heard heard = { 0 };
    char text[3000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    plait_log_set_sink(hear, &heard);
    log_warn("%s %d", "seven", 7);
    assert_string_equal(heard.last, "seven 7");
    log_error("%s", text);
    assert_in_range(strlen(heard.last), 500, sizeof heard.last - 1);
    assert_null(strchr(heard.last, '\n'));
    plait_log_set_sink(NULL, NULL);
}

static void count_whole(void *context, plait_log_level level, const char *line)
{
    (void)level;
    struct heard *heard = context;
    int a = -1, b = -2;
    if (sscanf(line, "%d and %d", &a, &b) != 2 || a != b)
        atomic_fetch_add(&heard->broken, 1);
    atomic_fetch_add(&heard->lines, 1);
}

static void *write_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < 500; i++)
        log_warn("%d and %d", i, i);
    return NULL;
}

static void threads_write_beside_each_other(void **state)
{
    (void)state;
    struct heard heard = { 0 };
    pthread_t threads[4];
    plait_log_set_sink(count_whole, &heard);
    for (size_t i = 0; i < LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, NULL), 0);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    plait_log_set_sink(NULL, NULL);
    assert_int_equal(heard.lines, 2000);
    assert_int_equal(heard.broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_choose_what_is_heard),
        cmocka_unit_test(lines_come_whole_and_without_an_end),
        cmocka_unit_test(threads_write_beside_each_other),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
