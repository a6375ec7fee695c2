/* Memory for operations whose tensors plait.h can't take as they are. */
#pragma once

#include <utility>
#include <vector>

#include "convert.h"

namespace plait_torch {

/*
 * The memory of one operation. Plain tensors (contiguous, no pending conjugation) are used where they are; others
 * go through a plain copy, so that wrong strides never give a wrong answer. Holds on to every tensor in use.
 */
class Staging {
  public:
    /* A plain tensor with the same elements. */
    at::Tensor input(const at::Tensor &tensor);
    /* A plain tensor whose elements copy_back() brings to `tensor`. */
    at::Tensor output(const at::Tensor &tensor);
    /* Both. */
    at::Tensor in_place(const at::Tensor &tensor);

    /* The same for a list whose elements lie, or are staged, one after another. */
    at::Tensor inputs(const Tensors &tensors);
    at::Tensor outputs(const Tensors &tensors);

    /*
     * `from`, or a copy of it if its memory overlaps with that of `to` otherwise than beginning `distance` bytes
     * behind it (negative: before), where plait.h takes both. Both plain.
     */
    at::Tensor apart(const at::Tensor &from, const at::Tensor &to, int64_t distance);

    /* After success: fills the outputs that were staged. Needs no GIL. */
    void copy_back();

  private:
    Tensors kept_;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies_; /* to, from */
};

} // namespace plait_torch
