/* The library's version; names and sizes of the public types and operations. */
#include "plait.h"

#define TEXT_OF(token) #token
#define TEXT(token) TEXT_OF(token)

const char *plait_version(void)
{
    return TEXT(PLAIT_VERSION_MAJOR) "." TEXT(PLAIT_VERSION_MINOR) "." TEXT(PLAIT_VERSION_PATCH);
}

static const struct {
    size_t size;
    const char *name;
} types[] = {
    [PLAIT_I8] = { 1, "i8" },   [PLAIT_U8] = { 1, "u8" },     [PLAIT_I32] = { 4, "i32" },
    [PLAIT_U32] = { 4, "u32" }, [PLAIT_I64] = { 8, "i64" },   [PLAIT_U64] = { 8, "u64" },
    [PLAIT_F16] = { 2, "f16" }, [PLAIT_BF16] = { 2, "bf16" }, [PLAIT_F32] = { 4, "f32" },
    [PLAIT_F64] = { 8, "f64" },
};

static const char *const ops[] = { [PLAIT_SUM] = "sum",
                                   [PLAIT_PRODUCT] = "product",
                                   [PLAIT_MIN] = "min",
                                   [PLAIT_MAX] = "max",
                                   [PLAIT_AVERAGE] = "average" };

size_t plait_type_size(plait_type type)
{
    return type >= PLAIT_I8 && type <= PLAIT_F64 ? types[type].size : 0;
}

const char *plait_type_name(plait_type type)
{
    return type >= PLAIT_I8 && type <= PLAIT_F64 ? types[type].name : "?";
}

const char *plait_op_name(plait_op op)
{
    return op >= PLAIT_SUM && op <= PLAIT_AVERAGE ? ops[op] : "?";
}
