/* Element types and operations: the one table of what there is, how large it is, and which operation is defined
 * for which type. What checks calls, the kernels and the tests of docs/types.md all go by it. */
#ifndef PLAIT_BASE_ELEMENT_H
#define PLAIT_BASE_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "plait.h"

/* One more than the largest values, for tables that they index. */
enum { ELEMENT_TYPES = PLAIT_I64_I64 + 1, ELEMENT_OPS = PLAIT_MAX_LOCATION + 1, ELEMENT_TEXT_BYTES = 256 };

/* The type in which partial results of `type` travel between steps: F32 for the
 * 8- and 16-bit floats, the type itself otherwise. */
plait_type element_accumulator(plait_type type);

/* Does a single operand's result differ from it, as any number but 0 becomes a truth? `op` 0: no. */
bool element_changes_alone(plait_type type, plait_op op);

/* Is there an operation of this value? */
bool element_op_known(plait_op op);

/* "sum, product, average": the operations defined for `type`, "" if there are none. */
void element_list_ops(plait_type type, char text[ELEMENT_TEXT_BYTES]);
/* "i8, u8, bool": the types that `op` is defined for. */
void element_list_types(plait_op op, char text[ELEMENT_TEXT_BYTES]);
/* All names, for refusals of values that mean nothing. */
void element_list_all_ops(char text[ELEMENT_TEXT_BYTES]);
void element_list_all_types(char text[ELEMENT_TEXT_BYTES]);

#endif
