/* plait-perf's options: sizes and how one follows another. What is refused: test_perf.py. */
#include "../bench/options.h"
#include "../bench/values.h"
#include "check.h"

enum { ARGUMENTS_MOST = 12, SIZES_MOST = 16 };

static const struct size_case {
    const char *text;
    bool good;
    size_t size;
} sizes[] = {
    { "", false, 0 },
    { "-1", false, 0 },
    { "+1", false, 0 },
    { " 1", false, 0 },
    { "K", false, 0 },
    { "1KB", false, 0 },
    { "1.5M", false, 0 },
    { "0x10", false, 0 },
    { "9223372036854775808", false, 0 },
    { "99999999999999999999", false, 0 },
    { "8388608T", false, 0 },
    { "0", true, 0 },
    { "8", true, 8 },
    { "8B", true, 8 },
    { "64k", true, 65536 },
    { "64K", true, 65536 },
    { "1MiB", true, 1048576 },
    { "2G", true, (size_t)2 << 30 },
};

static void sizes_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        size_t size = 0;
        assert_int_equal(value_size(sizes[i].text, &size), sizes[i].good);
        assert_int_equal(size, sizes[i].size);
    }
}

static void names_of_both_kinds_are_read(void **state)
{
    (void)state;
    assert_int_equal(value_type("f32"), PLAIT_F32);
    assert_int_equal(value_type("float"), PLAIT_F32);
    assert_int_equal(value_type("bfloat16"), PLAIT_BF16);
    assert_int_equal(value_type("half"), PLAIT_F16);
    assert_int_equal(value_type("f8"), 0);
    assert_int_equal(value_op("average"), PLAIT_AVERAGE);
    assert_int_equal(value_op("avg"), PLAIT_AVERAGE);
    assert_int_equal(value_op("prod"), PLAIT_PRODUCT);
    assert_int_equal(value_type("float8_e5m2"), PLAIT_F8E5M2);
    assert_int_equal(value_type("complex64"), PLAIT_C64);
    assert_int_equal(value_type("F64_I64"), PLAIT_F64_I64);
    assert_int_equal(value_op("bit_xor"), PLAIT_BIT_XOR);
    assert_int_equal(value_op("max_location"), PLAIT_MAX_LOCATION);
    assert_int_equal(value_op("nand"), 0);
}

static const struct sequence {
    const char *name;
    const char *arguments[ARGUMENTS_MOST];
    size_t sizes[SIZES_MOST];
    size_t count;
} sequences[] = {
    { "sizes by default, the last one out of step",
      { NULL },
      { 8, 64, 512, 4096, 32768, 262144, 2097152, 16777216, 67108864 },
      9 },
    { "one size", { "-b", "1K", "-e", "1K" }, { 1024 }, 1 },
    { "one size and a factor of one", { "-b", "1K", "-e", "1K", "-f", "1" }, { 1024 }, 1 },
    { "a factor leaves out what it does not reach", { "-b", "8", "-e", "100", "-f", "3" }, { 8, 24, 72 }, 3 },
    { "between powers of two", { "-b", "1000", "-e", "3500", "-f", "1.5" }, { 1000, 1500, 2250, 3375 }, 4 },
    { "a factor too small to move", { "-b", "1", "-e", "3", "-f", "1.1" }, { 1, 2, 3 }, 3 },
    { "steps that add up", { "-b", "10", "-e", "25", "-i", "5" }, { 10, 15, 20, 25 }, 4 },
    { "from nothing", { "-b", "0", "-e", "4", "-f", "2" }, { 0, 1, 2, 4 }, 4 },
    { "nothing only", { "-b", "0", "-e", "0" }, { 0 }, 1 },
    { "up to what overflows", { "-b", "4194304T", "-e", "4194304T", "-f", "8" }, { (size_t)1 << 62 }, 1 },
};

static void parse(struct options *options, const char *const *arguments)
{
    char *argv[ARGUMENTS_MOST + 2] = { (char *)(uintptr_t) "plait-perf" };
    int argc = 1;
    while (arguments[argc - 1]) {
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
        argc++;
    }
    options_parse(options, argc, argv);
}

static void sizes_follow(void **state)
{
    const struct sequence *sequence = *state;
    struct options options;
    parse(&options, sequence->arguments);
    size_t bytes = options.least_bytes;
    for (size_t i = 0; i < sequence->count; i++) {
        assert_int_equal(bytes, sequence->sizes[i]);
        assert_int_equal(options_next_size(&options, &bytes), i + 1 < sequence->count);
    }
}

static void lists_and_defaults(void **state)
{
    (void)state;
    struct options options;
    parse(&options, (const char *const[]){ NULL });
    assert_int_equal(options.collective_count, 1);
    assert_string_equal(options.collectives[0]->name, "all_reduce");
    assert_int_equal(options.types[0], PLAIT_F32);
    assert_int_equal(options.ops[0], PLAIT_SUM);
    assert_null(options.json);
    parse(&options,
          (const char *const[]){ "-C", "all-gather,gather", "barrier", "-d", "all", "-o", "min,max", NULL });
    assert_int_equal(options.collective_count, 3);
    assert_int_equal(options.type_count, 22);
    assert_int_equal(options.op_count, 2);
}

static void json_takes_the_next_word_unless_it_means_something(void **state)
{
    (void)state;
    struct options options;
    parse(&options, (const char *const[]){ "--json", NULL });
    assert_string_equal(options.json, "-");
    parse(&options, (const char *const[]){ "--json", "rows.json", "-n", "5", NULL });
    assert_string_equal(options.json, "rows.json");
    assert_int_equal(options.samples, 5);
    parse(&options, (const char *const[]){ "broadcast", "--json", "rows.json", "gather", NULL });
    assert_string_equal(options.json, "rows.json");
    assert_int_equal(options.collective_count, 2);
    parse(&options, (const char *const[]){ "--json", "all_gather", NULL });
    assert_string_equal(options.json, "-");
    assert_string_equal(options.collectives[0]->name, "all_gather");
    parse(&options, (const char *const[]){ "overlap", "--json", NULL });
    assert_string_equal(options.json, "-");
    assert_true(options.overlap);
    parse(&options, (const char *const[]){ "-J", "-", NULL });
    assert_string_equal(options.json, "-");
    parse(&options, (const char *const[]){ "--json=rows.json", NULL });
    assert_string_equal(options.json, "rows.json");
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(names_of_both_kinds_are_read),
        cmocka_unit_test(lists_and_defaults),
        cmocka_unit_test(json_takes_the_next_word_unless_it_means_something),
    };
    struct CMUnitTest tests[LENGTH(sequences) + LENGTH(others)];
    for (size_t i = 0; i < LENGTH(sequences); i++)
        tests[i] = (struct CMUnitTest){ .name = sequences[i].name,
                                        .test_func = sizes_follow,
                                        .initial_state = (void *)(uintptr_t)&sequences[i] };
    for (size_t i = 0; i < LENGTH(others); i++)
        tests[LENGTH(sequences) + i] = others[i];
    return check_run("perf options", tests, LENGTH(tests));
}
