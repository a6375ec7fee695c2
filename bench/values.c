#include "values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool value_number(const char *text, int64_t least, int64_t most, int64_t *number)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || strchr(" \t\n+", *text) || value < least || value > most)
        return false;
    *number = value;
    return true;
}

bool value_size(const char *text, size_t *size)
{
    static const struct {
        const char *suffix;
        int shift;
    } suffixes[] = {
        { "", 0 },     { "B", 0 },  { "K", 10 },   { "KiB", 10 }, { "M", 20 },
        { "MiB", 20 }, { "G", 30 }, { "GiB", 30 }, { "T", 40 },   { "TiB", 40 },
    };
    char digits[20] = "";
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        int64_t value;
        if (strcasecmp(text + length, suffixes[i].suffix) != 0)
            continue;
        if (!value_number(digits, 0, INT64_MAX >> suffixes[i].shift, &value))
            return false;
        *size = (size_t)value << suffixes[i].shift;
        return true;
    }
    return false;
}

plait_type value_type(const char *name)
{
    static const struct {
        const char *name;
        plait_type type;
    } others[] = {
        { "int8", PLAIT_I8 },
        { "char", PLAIT_I8 },
        { "uint8", PLAIT_U8 },
        { "int32", PLAIT_I32 },
        { "int", PLAIT_I32 },
        { "uint32", PLAIT_U32 },
        { "int64", PLAIT_I64 },
        { "uint64", PLAIT_U64 },
        { "half", PLAIT_F16 },
        { "float16", PLAIT_F16 },
        { "fp16", PLAIT_F16 },
        { "bfloat16", PLAIT_BF16 },
        { "float", PLAIT_F32 },
        { "float32", PLAIT_F32 },
        { "fp32", PLAIT_F32 },
        { "double", PLAIT_F64 },
        { "float64", PLAIT_F64 },
        { "int16", PLAIT_I16 },
        { "uint16", PLAIT_U16 },
        { "complex64", PLAIT_C64 },
        { "complex128", PLAIT_C128 },
        { "float8_e4m3fn", PLAIT_F8E4M3 },
        { "fp8_e4m3", PLAIT_F8E4M3 },
        { "f8e4m3fn", PLAIT_F8E4M3 },
        { "float8_e5m2", PLAIT_F8E5M2 },
        { "fp8_e5m2", PLAIT_F8E5M2 },
        { "byte", PLAIT_BYTES },
    };
    for (plait_type type = PLAIT_I8; type <= PLAIT_I64_I64; type++)
        if (strcasecmp(name, plait_type_name(type)) == 0)
            return type;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(name, others[i].name) == 0)
            return others[i].type;
    return (plait_type)0;
}

plait_op value_op(const char *name)
{
    for (plait_op op = PLAIT_SUM; op <= PLAIT_MAX_LOCATION; op++)
        if (strcasecmp(name, plait_op_name(op)) == 0)
            return op;
    if (strcasecmp(name, "prod") == 0)
        return PLAIT_PRODUCT;
    if (strcasecmp(name, "avg") == 0 || strcasecmp(name, "mean") == 0)
        return PLAIT_AVERAGE;
    return (plait_op)0;
}
