/* What plait.h needs of a tensor, and refusals that say what to do instead. */
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "plait.h"

namespace plait_torch {

/* A run of elements in host memory, as plait.h takes it. */
struct Span {
    void *data = nullptr;
    size_t count = 0;
    plait_type type = PLAIT_U8;
};

/* How a reduction of torch's is said in plait.h. */
struct Reduction {
    plait_type type;
    plait_op op;
};

/* Refuses tensors that are not in host memory or not strided. `call` is "all_reduce". */
void check_tensor(const at::Tensor &tensor, const char *call);

/* As check_tensor() for each; they must also be of one dtype. */
void check_tensors(const std::vector<at::Tensor> &tensors, at::ScalarType type, const char *call);

/* The tensor of a list that must have exactly one. */
at::Tensor &single(std::vector<at::Tensor> &tensors, const char *call);
std::vector<at::Tensor> &single(std::vector<std::vector<at::Tensor>> &lists, const char *call);

/* The type and operation to use, or an error that lists the good ones. */
Reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op, const char *call);

/*
 * The elements of a plain tensor. Types that plait.h does not name (bool,
 * complex, float8, ...) move as bytes: moving needs no arithmetic.
 */
Span span_of(const at::Tensor &plain);

/* As span_of(), for a reduction: the element type is the reduction's. */
Span span_of(const at::Tensor &plain, const Reduction &reduction);

/* `count` elements from `first` on. */
Span span_part(const Span &span, size_t first, size_t count);

/*
 * The memory of one operation. Plain tensors (contiguous, no pending
 * conjugation) are used where they are; others go through a plain copy, so
 * that wrong strides never give a wrong answer. Holds on to every tensor in use.
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
    at::Tensor inputs(const std::vector<at::Tensor> &tensors);
    at::Tensor outputs(const std::vector<at::Tensor> &tensors);

    /* After success: fills the outputs that were staged. Needs no GIL. */
    void copy_back();

    /* Copies elements between plain tensors of one size. */
    static void copy(const at::Tensor &to, const at::Tensor &from);

  private:
    std::vector<at::Tensor> kept_;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies_; /* to, from */
};

/* True if all have the same number of elements. */
bool same_sizes(const std::vector<at::Tensor> &tensors);

} // namespace plait_torch
