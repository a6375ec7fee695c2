#include "base/element.h"

#include <stdio.h>
#include <string.h>

#define BIT(op) (1u << (op))

enum {
    SUMS = BIT(PLAIT_SUM) | BIT(PLAIT_PRODUCT) | BIT(PLAIT_AVERAGE),
    ORDERED = BIT(PLAIT_MIN) | BIT(PLAIT_MAX),
    BITWISE = BIT(PLAIT_BIT_AND) | BIT(PLAIT_BIT_OR) | BIT(PLAIT_BIT_XOR),
    LOGICAL = BIT(PLAIT_AND) | BIT(PLAIT_OR) | BIT(PLAIT_XOR),

    INTEGER = SUMS | ORDERED | BITWISE | LOGICAL,
    TRUTH = INTEGER & ~BIT(PLAIT_AVERAGE),
    FLOAT = SUMS | ORDERED,
    COMPLEX = SUMS,
    PAIR = BIT(PLAIT_MIN_LOCATION) | BIT(PLAIT_MAX_LOCATION)
};

static const struct {
    const char *name;
    unsigned size;          /* bytes */
    unsigned ops;           /* the BIT()s of those defined */
    plait_type accumulator; /* 0: the type itself */
} types[ELEMENT_TYPES] = {
    [PLAIT_I8] = { "i8", 1, INTEGER, 0 },
    [PLAIT_U8] = { "u8", 1, INTEGER, 0 },
    [PLAIT_I32] = { "i32", 4, INTEGER, 0 },
    [PLAIT_U32] = { "u32", 4, INTEGER, 0 },
    [PLAIT_I64] = { "i64", 8, INTEGER, 0 },
    [PLAIT_U64] = { "u64", 8, INTEGER, 0 },
    [PLAIT_F16] = { "f16", 2, FLOAT, PLAIT_F32 },
    [PLAIT_BF16] = { "bf16", 2, FLOAT, PLAIT_F32 },
    [PLAIT_F32] = { "f32", 4, FLOAT, 0 },
    [PLAIT_F64] = { "f64", 8, FLOAT, 0 },
    [PLAIT_I16] = { "i16", 2, INTEGER, 0 },
    [PLAIT_U16] = { "u16", 2, INTEGER, 0 },
    [PLAIT_BOOL] = { "bool", 1, TRUTH, 0 },
    [PLAIT_C64] = { "c64", 8, COMPLEX, 0 },
    [PLAIT_C128] = { "c128", 16, COMPLEX, 0 },
    [PLAIT_F8E4M3] = { "f8e4m3", 1, FLOAT, PLAIT_F32 },
    [PLAIT_F8E5M2] = { "f8e5m2", 1, FLOAT, PLAIT_F32 },
    [PLAIT_BYTES] = { "bytes", 1, 0, 0 },
    [PLAIT_F32_I32] = { "f32_i32", 8, PAIR, 0 },
    [PLAIT_F64_I64] = { "f64_i64", 16, PAIR, 0 },
    [PLAIT_I32_I32] = { "i32_i32", 8, PAIR, 0 },
    [PLAIT_I64_I64] = { "i64_i64", 16, PAIR, 0 },
};

static const char *const ops[ELEMENT_OPS] = {
    [PLAIT_SUM] = "sum",
    [PLAIT_PRODUCT] = "product",
    [PLAIT_MIN] = "min",
    [PLAIT_MAX] = "max",
    [PLAIT_AVERAGE] = "average",
    [PLAIT_BIT_AND] = "bit_and",
    [PLAIT_BIT_OR] = "bit_or",
    [PLAIT_BIT_XOR] = "bit_xor",
    [PLAIT_AND] = "and",
    [PLAIT_OR] = "or",
    [PLAIT_XOR] = "xor",
    [PLAIT_MIN_LOCATION] = "min_location",
    [PLAIT_MAX_LOCATION] = "max_location",
};

/* Callers may have cast any number to an enumeration; whether that has a sign is the compiler's choice. */
static bool known(plait_type type)
{
    return (unsigned)type - PLAIT_I8 < ELEMENT_TYPES - PLAIT_I8;
}

bool element_op_known(plait_op op)
{
    return (unsigned)op - PLAIT_SUM < ELEMENT_OPS - PLAIT_SUM;
}

size_t plait_type_size(plait_type type)
{
    return known(type) ? types[type].size : 0;
}

const char *plait_type_name(plait_type type)
{
    return known(type) ? types[type].name : "?";
}

const char *plait_op_name(plait_op op)
{
    return element_op_known(op) ? ops[op] : "?";
}

int plait_type_reduces(plait_type type, plait_op op)
{
    return known(type) && element_op_known(op) && (types[type].ops & BIT(op)) != 0;
}

plait_type element_accumulator(plait_type type)
{
    return known(type) && types[type].accumulator != 0 ? types[type].accumulator : type;
}

bool element_changes_alone(plait_type type, plait_op op)
{
    return element_op_known(op) &&
           (type == PLAIT_BOOL || op == PLAIT_AND || op == PLAIT_OR || op == PLAIT_XOR);
}

/* -------------------------------------------------------------------- lists */

static void append(char text[ELEMENT_TEXT_BYTES], const char *name)
{
    size_t length = strlen(text);
    snprintf(text + length, ELEMENT_TEXT_BYTES - length, "%s%s", length > 0 ? ", " : "", name);
}

void element_list_ops(plait_type type, char text[ELEMENT_TEXT_BYTES])
{
    text[0] = '\0';
    for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++)
        if (plait_type_reduces(type, (plait_op)op))
            append(text, ops[op]);
}

void element_list_types(plait_op op, char text[ELEMENT_TEXT_BYTES])
{
    text[0] = '\0';
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++)
        if (plait_type_reduces((plait_type)type, op))
            append(text, types[type].name);
}

void element_list_all_ops(char text[ELEMENT_TEXT_BYTES])
{
    text[0] = '\0';
    for (int op = PLAIT_SUM; op < ELEMENT_OPS; op++)
        append(text, ops[op]);
}

void element_list_all_types(char text[ELEMENT_TEXT_BYTES])
{
    text[0] = '\0';
    for (int type = PLAIT_I8; type < ELEMENT_TYPES; type++)
        append(text, types[type].name);
}
