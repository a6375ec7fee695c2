/* docs/types.md says what the library accepts: its table is read and compared, cell by cell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/element.h"
#include "check.h"

enum { MOST_COLUMNS = 16 };

static plait_type type_called(const char *name)
{
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++)
        if (strcmp(plait_type_name((plait_type)type), name) == 0)
            return (plait_type)type;
    fail_msg("\"%s\" is no type", name);
    return (plait_type)0;
}

/* Cuts "| a | b |" into cells without blanks around them; gives their number. */
static size_t cut_row(char *line, char *cells[MOST_COLUMNS])
{
    size_t count = 0;
    char *rest = line + 1;
    for (char *end; (end = strchr(rest, '|')) != NULL && count < MOST_COLUMNS; rest = end + 1) {
        *end = '\0';
        while (*rest == ' ')
            rest++;
        for (char *last = end; last > rest && last[-1] == ' ';)
            *--last = '\0';
        cells[count++] = rest;
    }
    return count;
}

/* The operations that a column's title names, as bits; 0 if it is about something else. */
static unsigned ops_of(const char *title)
{
    unsigned ops = 0;
    char text[128];
    snprintf(text, sizeof text, "%s", title);
    for (char *name = strtok(text, " "); name != NULL; name = strtok(NULL, " "))
        for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++)
            if (strcmp(name, plait_op_name((plait_op)op)) == 0)
                ops |= 1u << op;
    return ops;
}

static void check_row(char *const titles[], char *const cells[], size_t columns, unsigned *types,
                      unsigned *ops)
{
    const plait_type type = type_called(cells[0]);
    *types |= 1u << type;
    for (size_t i = 1; i < columns; i++) {
        const unsigned column = ops_of(titles[i]);
        *ops |= column;
        if (strcmp(titles[i], "bytes") == 0)
            assert_int_equal(atoi(cells[i]), plait_type_size(type));
        else if (strcmp(titles[i], "folded in") == 0)
            assert_string_equal(cells[i], plait_type_name(element_accumulator(type)));
        else
            assert_true(column != 0);
        for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++) {
            bool told = strcmp(cells[i], "—") != 0;
            if ((column >> op & 1) != 0 && told != (plait_type_reduces(type, (plait_op)op) != 0))
                fail_msg("%s of %s: the page says \"%s\"", plait_op_name((plait_op)op), cells[0], cells[i]);
        }
    }
}

static void the_page_and_the_library_agree(void **state)
{
    (void)state;
    FILE *page = fopen(SOURCE_DIR "/docs/types.md", "r");
    assert_non_null(page);
    static char header[1024];
    char line[1024], *titles[MOST_COLUMNS], *cells[MOST_COLUMNS];
    size_t columns = 0;
    unsigned types = 0, ops = 0;
    while (fgets(line, sizeof line, page) != NULL) {
        if (line[0] != '|' || line[1] == '-')
            continue;
        if (columns == 0) {
            memcpy(header, line, sizeof header);
            columns = cut_row(header, titles);
            continue;
        }
        assert_int_equal(cut_row(line, cells), columns);
        check_row(titles, cells, columns, &types, &ops);
    }
    fclose(page);
    assert_int_equal(types, (1u << ELEMENT_TYPES) - (1u << PLAIT_I8));
    assert_int_equal(ops, (1u << ELEMENT_OPS) - (1u << PLAIT_SUM));
}

static void lists_hold_all_names(void **state)
{
    (void)state;
    char text[ELEMENT_TEXT_BYTES];
    element_list_all_types(text);
    assert_true(strlen(text) + 1 < ELEMENT_TEXT_BYTES); /* not cut off */
    assert_non_null(strstr(text, "i8, u8, "));
    assert_non_null(strstr(text, ", i64_i64"));
    element_list_all_ops(text);
    assert_true(strlen(text) + 1 < ELEMENT_TEXT_BYTES);
    assert_non_null(strstr(text, "sum, product, "));
    assert_non_null(strstr(text, ", max_location"));
    element_list_ops(PLAIT_C64, text);
    assert_string_equal(text, "sum, product, average");
    element_list_ops(PLAIT_BYTES, text);
    assert_string_equal(text, "");
    element_list_types(PLAIT_MIN_LOCATION, text);
    assert_string_equal(text, "f32_i32, f64_i64, i32_i32, i64_i64");
}

static void only_truths_change_alone(void **state)
{
    (void)state;
    assert_true(element_changes_alone(PLAIT_BOOL, PLAIT_SUM));
    assert_true(element_changes_alone(PLAIT_I32, PLAIT_XOR));
    assert_false(element_changes_alone(PLAIT_BOOL, (plait_op)0)); /* moved, not reduced */
    assert_false(element_changes_alone(PLAIT_I32, PLAIT_BIT_XOR));
    assert_false(element_changes_alone(PLAIT_F32, PLAIT_AVERAGE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_and_the_library_agree),
        cmocka_unit_test(lists_hold_all_names),
        cmocka_unit_test(only_truths_change_alone),
    };
    return cmocka_run_group_tests_name("types", tests, NULL, NULL);
}
