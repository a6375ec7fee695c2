/* How torch's reductions are said in plait.h. */
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "convert.h"

namespace plait_torch {

/* The type and operation of a reduction. A copy keeps an operation that was made for the call. */
struct Reduction {
    plait_type type;
    plait_op op;
    std::shared_ptr<const void> made = nullptr;
};

/* What `op` is for tensors of `type`, or a ValueError that lists what is good. `call` is "all_reduce". */
Reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op, const char *call);

/* As span_of(), with the element type of the reduction. */
inline Span span_of(const at::Tensor &plain, const Reduction &reduction)
{
    Span span = span_of(plain);
    span.type = reduction.type;
    return span;
}

} // namespace plait_torch
