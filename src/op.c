/* Operations that callers make. */
#include <stdio.h>
#include <string.h>

#include "base/element.h"
#include "base/made_op.h"
#include "base/status.h"
#include "collectives/fold.h"

/* FNV-1a. */
static uint64_t print_of(const char *name, bool ordered)
{
    uint64_t print = UINT64_C(0xcbf29ce484222325) + ordered;
    for (; *name != '\0'; name++)
        print = (print ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return print;
}

plait_status plait_op_create_premul(plait_type type, const void *factor, plait_op *number)
{
    if (factor == NULL || number == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s is NULL", __func__, factor == NULL ? "factor" : "op");
    if (plait_type_size(type) == 0 || !fold_multiplies(type))
        return failure(
            PLAIT_INVALID_ARGUMENT,
            "%s: type is %d (%s), which can't be multiplied and summed; PLAIT_F32, for example, can",
            __func__, (int)type, plait_type_name(type));
    plait_type accumulator = element_accumulator(type);
    struct made_op op = { .type = type };
    snprintf(op.name, sizeof op.name, "pre-multiplied sum");
    op.print = print_of("", false);
    memcpy(op.factor, factor, plait_type_size(accumulator));
    return made_op_add(&op, number);
}

/* The caller's options as this version knows them. */
static plait_status read_options(const plait_function_op *options, plait_function_op *known,
                                 const char *function)
{
    memset(known, 0, sizeof *known);
    size_t size = options->struct_size == 0 ? sizeof *known : options->struct_size;
    if (size < sizeof(size_t) || size > 65536)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: options->struct_size is %zu; set it to sizeof(plait_function_op)", function,
                       size);
    for (size_t i = sizeof *known; i < size; i++)
        if (((const unsigned char *)options)[i] != 0)
            return failure(PLAIT_UNSUPPORTED,
                           "%s: options has fields that this version of the library (%s) does not know",
                           function, plait_version());
    memcpy(known, options, size < sizeof *known ? size : sizeof *known);
    return PLAIT_OK;
}

plait_status plait_op_create_function(const plait_function_op *options, plait_op *number)
{
    if (options == NULL || number == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: %s is NULL", __func__,
                       options == NULL ? "options" : "op");
    plait_function_op known;
    plait_status status = read_options(options, &known, __func__);
    if (status != PLAIT_OK)
        return status;
    if (known.function == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: options->function is NULL", __func__);
    struct made_op op = { .function = known.function,
                          .context = known.context,
                          .ordered = !known.commutative };
    snprintf(op.name, sizeof op.name, "%s",
             known.name != NULL && known.name[0] != '\0' ? known.name : "a function");
    op.print = print_of(op.name, op.ordered) + 1;
    return made_op_add(&op, number);
}

plait_status plait_op_destroy(plait_op number)
{
    if ((int)number > 0 && (int)number < PLAIT_FIRST_MADE_OP && plait_op_name(number)[0] != '?')
        return failure(PLAIT_INVALID_ARGUMENT, "%s: op is %s, which is the library's own", __func__,
                       plait_op_name(number));
    if (made_op_end(number))
        return PLAIT_OK;
    return failure(PLAIT_INVALID_ARGUMENT, "%s: op is %d, which is no living operation", __func__,
                   (int)number);
}
