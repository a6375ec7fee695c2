/* Settings: options and environment, good and bad, and the words for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "check.h"
#include "launcher_names.h"

extern char **environ;

static const char *const launcher_names[] = { "RANK",        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                              "MASTER_ADDR", "MASTER_PORT" };

/* Each test starts without any variable that counts. */
static int clear_environment(void **state)
{
    (void)state;
    struct setting_description row;
    for (size_t i = 0; settings_describe(i, &row); i++)
        unsetenv(row.name);
    for (size_t i = 0; i < LENGTH(launcher_names); i++)
        unsetenv(launcher_names[i]);
    launcher_clear();
    return 0;
}

static void set_all(const char *const *pairs)
{
    for (; pairs[0]; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
}

static void defaults_are_a_world_of_one(void **state)
{
    (void)state;
    struct settings settings;
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_int_equal(settings.rank, 0);
    assert_int_equal(settings.size, 1);
    assert_int_equal(settings.local_rank, -1);
    assert_int_equal(settings.local_size, -1);
    assert_null(settings.address);
    assert_null(settings.job_key);
    assert_int_equal(settings.timeout_ms, 600000);
    assert_int_equal(settings.start_timeout_ms, 120000);
    assert_string_equal(settings.transport, "auto");
    assert_string_equal(settings.plan, "auto");
    assert_string_equal(settings.kernels, "auto");
    assert_int_equal(settings.log_level, PLAIT_LOG_WARN);
    assert_int_equal(settings.staging_size, 0);
    assert_int_equal(settings.stores, STORES_AUTO);
}

static void environment_overrides_options(void **state)
{
    (void)state;
    static const char *const pairs[] = {
        "PLAIT_TIMEOUT_MS",
        "250",
        "PLAIT_START_TIMEOUT_MS",
        "-1",
        "PLAIT_TRANSPORT",
        "inproc",
        "PLAIT_PLAN",
        "direct-two-phase",
        "PLAIT_LOG",
        "error",
        "PLAIT_KERNELS",
        "scalar",
        "PLAIT_JOB_KEY",
        "open sesame",
        "PLAIT_FILE",
        "/tmp/meet",
        "PLAIT_STAGING_SIZE",
        "2m",
        "PLAIT_STORES",
        "streamed",
        "PLAIT_PROVE",
        "on",
        NULL,
    };
    plait_world_options options = { .struct_size = sizeof options,
                                    .rank = 2,
                                    .size = 3,
                                    .file = "/tmp/other",
                                    .job_key = "x",
                                    .job_key_size = 1,
                                    .timeout_ms = 7,
                                    .start_timeout_ms = 8,
                                    .transport = "shm",
                                    .plan = "ring" };
    struct settings settings;

    assert_int_equal(settings_load(&settings, &options), PLAIT_OK);
    assert_int_equal(settings.rank, 2);
    assert_int_equal(settings.size, 3);
    assert_int_equal(settings.timeout_ms, 7);
    assert_int_equal(settings.start_timeout_ms, 8);
    assert_string_equal(settings.transport, "shm");
    assert_string_equal(settings.plan, "ring");
    assert_string_equal(settings.file, "/tmp/other");
    assert_int_equal(settings.job_key_size, 1);

    set_all(pairs);
    assert_int_equal(settings_load(&settings, &options), PLAIT_OK);
    log_set_level(PLAIT_LOG_WARN);
    assert_int_equal(settings.rank, 2);
    assert_int_equal(settings.timeout_ms, 250);
    assert_int_equal(settings.start_timeout_ms, -1);
    assert_string_equal(settings.transport, "inproc");
    assert_string_equal(settings.plan, "direct-two-phase");
    assert_int_equal(settings.log_level, PLAIT_LOG_ERROR);
    assert_string_equal(settings.kernels, "scalar");
    assert_int_equal(settings.job_key_size, 11);
    assert_memory_equal(settings.job_key, "open sesame", 11);
    assert_string_equal(settings.file, "/tmp/meet");
    assert_int_equal(settings.staging_size, 2 << 20);
    assert_int_equal(settings.stores, STORES_STREAMED);
    assert_true(settings.prove);
}

static void the_network_is_as_told(void **state)
{
    (void)state;
    struct settings settings;
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_true(settings.network_latency_ns == 0 && settings.network_ns_per_byte == 0);
    setenv("PLAIT_NETWORK_LATENCY_US", "25", 1);
    setenv("PLAIT_NETWORK_MBITS", "1000", 1);
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_true(settings.network_latency_ns == 25000);
    assert_true(settings.network_ns_per_byte == 8);
}

static void empty_variables_are_unset(void **state)
{
    (void)state;
    struct settings settings;
    setenv("PLAIT_TRANSPORT", "", 1);
    setenv("PLAIT_JOB_KEY", "", 1);
    setenv("WORLD_SIZE", "", 1);
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_string_equal(settings.transport, "auto");
    assert_null(settings.job_key);
    assert_int_equal(settings.size, 1);
}

/* One variable (two, three) and what comes of it. */
struct variable_case {
    const char *name;
    const char *pairs[9];
    plait_status status;
    const char *sentence; /* a part of it, for failures */
};

static const struct variable_case variable_cases[] = {
    { "unknown transport lists the good ones",
      { "PLAIT_TRANSPORT", "foo" },
      PLAIT_INVALID_SETTING,
      "PLAIT_TRANSPORT is 'foo'; good values: auto, inproc, shm, ofi" },
    { "names are whole", { "PLAIT_TRANSPORT", "sh" }, PLAIT_INVALID_SETTING, "'sh'" },
    { "a speed of nothing",
      { "PLAIT_NETWORK_MBITS", "0" },
      PLAIT_INVALID_SETTING,
      "Mbit/s from 1 to 10000000" },
    { "a speed with a unit",
      { "PLAIT_NETWORK_MBITS", "10G" },
      PLAIT_INVALID_SETTING,
      "PLAIT_NETWORK_MBITS is '10G'" },
    { "a latency of nothing",
      { "PLAIT_NETWORK_LATENCY_US", "0" },
      PLAIT_INVALID_SETTING,
      "microseconds from 1" },
    { "names are case-sensitive",
      { "PLAIT_PLAN", "Ring" },
      PLAIT_INVALID_SETTING,
      "doubling, halving, ring, tree" },
    { "unknown log level", { "PLAIT_LOG", "verbose" }, PLAIT_INVALID_SETTING, "error, warn, info, debug" },
    { "unknown kernels", { "PLAIT_KERNELS", "sse" }, PLAIT_INVALID_SETTING, "scalar, avx2" },
    { "unknown stores", { "PLAIT_STORES", "yes" }, PLAIT_INVALID_SETTING, "auto, ordinary, streamed" },
    { "timeout of zero", { "PLAIT_TIMEOUT_MS", "0" }, PLAIT_INVALID_SETTING, "milliseconds from 1" },
    { "timeout below -1", { "PLAIT_TIMEOUT_MS", "-2" }, PLAIT_INVALID_SETTING, "-1 for no limit" },
    { "timeout with a unit", { "PLAIT_TIMEOUT_MS", "5s" }, PLAIT_INVALID_SETTING, "'5s'" },
    { "timeout with a blank", { "PLAIT_TIMEOUT_MS", " 5" }, PLAIT_INVALID_SETTING, "' 5'" },
    { "timeout with a plus", { "PLAIT_TIMEOUT_MS", "+5" }, PLAIT_INVALID_SETTING, "'+5'" },
    { "timeout beyond int64",
      { "PLAIT_START_TIMEOUT_MS", "99999999999999999999" },
      PLAIT_INVALID_SETTING,
      "PLAIT_START_TIMEOUT_MS" },
    { "timeout that is a dash", { "PLAIT_TIMEOUT_MS", "-" }, PLAIT_INVALID_SETTING, "'-'" },
    { "staging of 64K", { "PLAIT_STAGING_SIZE", "64K" }, PLAIT_OK, NULL },
    { "staging of 65536", { "PLAIT_STAGING_SIZE", "65536" }, PLAIT_OK, NULL },
    { "staging of 1G", { "PLAIT_STAGING_SIZE", "1G" }, PLAIT_OK, NULL },
    { "staging a byte short", { "PLAIT_STAGING_SIZE", "65535" }, PLAIT_INVALID_SETTING, "64K to 1G" },
    { "staging a K too long", { "PLAIT_STAGING_SIZE", "1048577K" }, PLAIT_INVALID_SETTING, "64K to 1G" },
    { "staging that would overflow", { "PLAIT_STAGING_SIZE", "17179869184G" }, PLAIT_INVALID_SETTING, "64K" },
    { "staging with two suffixes", { "PLAIT_STAGING_SIZE", "64KB" }, PLAIT_INVALID_SETTING, "'64KB'" },
    { "staging with an odd suffix", { "PLAIT_STAGING_SIZE", "64T" }, PLAIT_INVALID_SETTING, "'64T'" },
    { "staging without digits", { "PLAIT_STAGING_SIZE", "M" }, PLAIT_INVALID_SETTING, "'M'" },
    { "staging below zero", { "PLAIT_STAGING_SIZE", "-1M" }, PLAIT_INVALID_SETTING, "'-1M'" },
    { "staging of very many digits",
      { "PLAIT_STAGING_SIZE", "000000000000000000065536" },
      PLAIT_INVALID_SETTING,
      "64K" },

    { "a world of one by name", { "WORLD_SIZE", "1" }, PLAIT_OK, NULL },
    { "rank without size", { "RANK", "0" }, PLAIT_INVALID_SETTING, "WORLD_SIZE is not set" },
    { "size without rank", { "WORLD_SIZE", "2" }, PLAIT_INVALID_SETTING, "RANK is not set" },
    { "rank past the end", { "RANK", "2", "WORLD_SIZE", "2" }, PLAIT_INVALID_SETTING, "0 to 1" },
    { "rank below zero", { "RANK", "-1", "WORLD_SIZE", "2" }, PLAIT_INVALID_SETTING, "RANK is '-1'" },
    { "rank that is no number",
      { "RANK", "one", "WORLD_SIZE", "2" },
      PLAIT_INVALID_SETTING,
      "RANK is 'one'" },
    { "size of zero", { "RANK", "0", "WORLD_SIZE", "0" }, PLAIT_INVALID_SETTING, "WORLD_SIZE is '0'" },
    { "size past int", { "RANK", "0", "WORLD_SIZE", "2147483648" }, PLAIT_INVALID_SETTING, "WORLD_SIZE is" },
    { "no address",
      { "RANK", "0", "WORLD_SIZE", "2", "MASTER_PORT", "1" },
      PLAIT_INVALID_SETTING,
      "set MASTER_ADDR" },
    { "no port",
      { "RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "::1" },
      PLAIT_INVALID_SETTING,
      "set MASTER_PORT" },
    { "port past the end",
      { "RANK", "0", "WORLD_SIZE", "1", "MASTER_PORT", "65536" },
      PLAIT_INVALID_SETTING,
      "1 to 65535" },
    { "port of zero",
      { "RANK", "0", "WORLD_SIZE", "1", "MASTER_PORT", "0" },
      PLAIT_INVALID_SETTING,
      "1 to 65535" },
    { "local rank past the end",
      { "LOCAL_RANK", "4", "LOCAL_WORLD_SIZE", "4" },
      PLAIT_INVALID_SETTING,
      "0 to 3" },
    { "local rank that is no number", { "LOCAL_RANK", "a" }, PLAIT_INVALID_SETTING, "LOCAL_RANK is 'a'" },
    { "a file needs no address", { "RANK", "1", "WORLD_SIZE", "2", "PLAIT_FILE", "/tmp/x" }, PLAIT_OK, NULL },
    { "all that torchrun sets",
      { "RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT", "29500" },
      PLAIT_OK,
      NULL },
};

static void variables_are_checked(void **state)
{
    const struct variable_case *try = *state;
    struct settings settings;
    set_all(try->pairs);
    assert_int_equal(settings_load(&settings, NULL), try->status);
    if (try->sentence && !strstr(failure_text(), try->sentence))
        fail_msg("'%s' lacks '%s'", failure_text(), try->sentence);
}

static void launcher_is_understood(void **state)
{
    (void)state;
    static const char *const pairs[] = { "RANK",        "5",      "WORLD_SIZE",       "8",
                                         "MASTER_ADDR", "node-0", "MASTER_PORT",      "29500",
                                         "LOCAL_RANK",  "1",      "LOCAL_WORLD_SIZE", "4",
                                         NULL };
    struct settings settings;
    set_all(pairs);
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_int_equal(settings.rank, 5);
    assert_int_equal(settings.size, 8);
    assert_int_equal(settings.local_rank, 1);
    assert_int_equal(settings.local_size, 4);
    assert_string_equal(settings.address, "node-0");
    assert_int_equal(settings.port, 29500);

    /* The caller's own numbers and address win over the launcher's. */
    plait_world_options options = { .rank = 1, .size = 2, .address = "node-1", .port = 5 };
    assert_int_equal(settings_load(&settings, &options), PLAIT_OK);
    assert_int_equal(settings.rank, 1);
    assert_int_equal(settings.size, 2);
    assert_string_equal(settings.address, "node-1");
    assert_int_equal(settings.port, 5);
}

static int store_call(void *context, const char *key, const void *value, size_t size)
{
    (void)context, (void)key, (void)value, (void)size;
    return 0;
}

static const plait_store half_store = { .struct_size = sizeof half_store, .set = store_call };
static const plait_store small_store = { .struct_size = 8 };
#define SOME_THREADS ((plait_thread_group *)(uintptr_t)64) /* never looked into here */

static const struct option_case {
    const char *name;
    plait_world_options options;
    plait_status status;
    const char *sentence;
} option_cases[] = {
    { "size below zero", { .size = -1 }, PLAIT_INVALID_ARGUMENT, "options.size is -1" },
    { "rank without size", { .rank = 1 }, PLAIT_INVALID_ARGUMENT, "options.size is 0" },
    { "rank below zero", { .rank = -1, .size = 2 }, PLAIT_INVALID_ARGUMENT, "0 to 1" },
    { "rank past the end", { .rank = 2, .size = 2 }, PLAIT_INVALID_ARGUMENT, "0 to 1" },
    { "threads without size", { .threads = SOME_THREADS }, PLAIT_INVALID_ARGUMENT, "options.threads" },
    { "threads", { .threads = SOME_THREADS, .size = 2 }, PLAIT_OK, NULL },
    { "store without functions", { .store = &half_store, .size = 2 }, PLAIT_INVALID_ARGUMENT, "lacks" },
    { "store without size", { .store = &half_store }, PLAIT_INVALID_ARGUMENT, "options.store" },
    { "store that is too small",
      { .store = &small_store, .size = 2 },
      PLAIT_INVALID_ARGUMENT,
      "struct_size" },
    { "port past the end", { .port = 65536 }, PLAIT_INVALID_ARGUMENT, "65536" },
    { "port below zero", { .port = -1 }, PLAIT_INVALID_ARGUMENT, "1 to 65535" },
    { "key without size", { .job_key = "k" }, PLAIT_INVALID_ARGUMENT, "job_key_size is 0" },
    { "size without key", { .job_key_size = 3 }, PLAIT_INVALID_ARGUMENT, "job_key is NULL" },
    { "empty path", { .file = "" }, PLAIT_INVALID_ARGUMENT, "empty path" },
    { "unknown transport", { .transport = "tcp" }, PLAIT_INVALID_SETTING, "options.transport is 'tcp'" },
    { "unknown plan", { .plan = "" }, PLAIT_INVALID_SETTING, "options.plan is ''" },
    { "two ranks and no address", { .size = 2 }, PLAIT_INVALID_SETTING, "MASTER_ADDR" },
    { "any timeout", { .timeout_ms = -5 }, PLAIT_OK, NULL },
};

static void options_are_checked(void **state)
{
    const struct option_case *try = *state;
    struct settings settings;
    assert_int_equal(settings_load(&settings, &try->options), try->status);
    if (try->sentence && !strstr(failure_text(), try->sentence))
        fail_msg("'%s' lacks '%s'", failure_text(), try->sentence);
}

/* Options as a caller built against another version passes them. */
static void struct_size_is_honoured(void **state)
{
    (void)state;
    struct {
        plait_world_options options;
        char later[16];
    } newer = { .options = { .struct_size = sizeof newer, .plan = "ring" } };
    struct settings settings;
    assert_int_equal(settings_load(&settings, &newer.options), PLAIT_OK);
    assert_string_equal(settings.plan, "ring");
    newer.later[15] = 1;
    assert_int_equal(settings_load(&settings, &newer.options), PLAIT_UNSUPPORTED);
    assert_non_null(strstr(failure_text(), "newer library"));

    /* What lies behind an older, shorter struct is not looked at. */
    plait_world_options older = { .struct_size = offsetof(plait_world_options, plan), .plan = "nonsense" };
    assert_int_equal(settings_load(&settings, &older), PLAIT_OK);
    assert_string_equal(settings.plan, "auto");

    older.struct_size = 3;
    assert_int_equal(settings_load(&settings, &older), PLAIT_INVALID_ARGUMENT);
    older.struct_size = SIZE_MAX;
    assert_int_equal(settings_load(&settings, &older), PLAIT_INVALID_ARGUMENT);
}

static const struct nearest_case {
    const char *name;
    const char *nearest;
} nearest_cases[] = {
    { "PLAIT_TIMEOUT", "PLAIT_TIMEOUT_MS" },
    { "PLAIT_TRASNPORT", "PLAIT_TRANSPORT" },
    { "PLAIT_LOGS", "PLAIT_LOG" },
    { "PLAIT_START_TIMEOUT", "PLAIT_START_TIMEOUT_MS" },
    { "PLAIT_STORE", "PLAIT_STORES" },
    { "PLAIT_JOBKEY", "PLAIT_JOB_KEY" },
    { "PLAIT_PLAN", NULL },
    { "PLAIT_STAGING", "PLAIT_STAGING_SIZE" },
    { "PLAIT_KERNEL", "PLAIT_KERNELS" },
    { "PLAIT_FIEL", "PLAIT_FILE" },
};

static void nearest_names_are_near(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(nearest_cases); i++) {
        const char *nearest = settings_nearest(nearest_cases[i].name);
        if (nearest_cases[i].nearest == NULL)
            assert_null(nearest);
        else
            assert_string_equal(nearest, nearest_cases[i].nearest);
    }
    assert_non_null(settings_nearest("PLAIT_")); /* any, but one */
    assert_non_null(settings_nearest("PLAIT_A_NAME_THAT_IS_FAR_LONGER_THAN_ALL_OF_OURS_AND_GOES_ON_AND_ON"));
}

static void count_line(void *context, plait_log_level level, const char *line)
{
    int *lines = context;
    if (level == PLAIT_LOG_WARN && strstr(line, "PLAIT_TIMEOUT is not") && strstr(line, "PLAIT_TIMEOUT_MS?"))
        ++*lines;
}

/* The first load of this process: it must run before all other tests. */
static void unknown_names_are_warned_about_once(void **state)
{
    (void)state;
    int lines = 0;
    struct settings settings;
    plait_log_set_sink(count_line, &lines);
    setenv("PLAIT_TIMEOUT", "5", 1);
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_int_equal(lines, 1);
    assert_int_equal(settings_load(&settings, NULL), PLAIT_OK);
    assert_int_equal(lines, 1);
    unsetenv("PLAIT_TIMEOUT");
    plait_log_set_sink(NULL, NULL);
}

static void documentation_has_each_row(void **state)
{
    (void)state;
    static char page[32768];
    FILE *file = fopen(SOURCE_DIR "/docs/settings.md", "r");
    assert_non_null(file);
    size_t size = fread(page, 1, sizeof page - 1, file);
    page[size] = '\0';
    fclose(file);

    struct setting_description row;
    size_t lacking = 0;
    for (size_t i = 0; settings_describe(i, &row); i++) {
        char option[64] = "", standard[64] = "", line[512];
        if (row.option[0])
            snprintf(option, sizeof option, "`%s`", row.option);
        snprintf(standard, sizeof standard, "%s", row.standard[0] ? row.standard : "none");
        snprintf(line, sizeof line, "| `%s` | %s | %s | %s | %s |\n", row.name, option, row.good, standard,
                 row.help);
        if (!strstr(page, line)) {
            print_error("docs/settings.md lacks this row:\n%s", line);
            lacking++;
        }
    }
    assert_int_equal(lacking, 0);
    assert_false(settings_describe(1000, &row));
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(variable_cases) + LENGTH(option_cases) + 9];
    size_t count = 0;
#define ADD(function, label, data)                                                                           \
    tests[count++] = (struct CMUnitTest){ .name = (label),                                                   \
                                          .test_func = (function),                                           \
                                          .setup_func = clear_environment,                                   \
                                          .initial_state = (void *)(uintptr_t)(data) }
    ADD(unknown_names_are_warned_about_once, "unknown names are warned about once", NULL);
    ADD(defaults_are_a_world_of_one, "defaults are a world of one", NULL);
    ADD(environment_overrides_options, "environment overrides options", NULL);
    ADD(the_network_is_as_told, "the network is as told", NULL);
    ADD(empty_variables_are_unset, "empty variables are unset", NULL);
    ADD(launcher_is_understood, "launcher is understood", NULL);
    ADD(struct_size_is_honoured, "struct size is honoured", NULL);
    ADD(nearest_names_are_near, "nearest names are near", NULL);
    ADD(documentation_has_each_row, "documentation has each row", NULL);
    for (size_t i = 0; i < LENGTH(variable_cases); i++)
        ADD(variables_are_checked, variable_cases[i].name, &variable_cases[i]);
    for (size_t i = 0; i < LENGTH(option_cases); i++)
        ADD(options_are_checked, option_cases[i].name, &option_cases[i]);

    return check_run("settings", tests, count);
}
