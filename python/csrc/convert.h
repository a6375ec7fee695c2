/* What plait.h needs of a tensor, and refusals that say what to do instead. */
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "plait.h"

namespace plait_torch {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<std::vector<at::Tensor>>;

/* A run of elements in host memory, as plait.h takes it. */
struct Span {
    void *data = nullptr;
    size_t count = 0;
    plait_type type = PLAIT_BYTES;
};

/* "float32". */
std::string dtype_name(at::ScalarType type);

/* The type of plait.h with the same meaning; PLAIT_BYTES, which can only be moved, for those that it does not name. */
plait_type element_type(at::ScalarType type);

/* Refuses tensors that are not in host memory, or not an array of elements there. `call` is "all_reduce". */
void check_tensor(const at::Tensor &tensor, const char *call);
/* As check_tensor(), for one that is written to: no two elements of it may share memory. */
void check_output(const at::Tensor &tensor, const char *call);

/* As the above for each; they must also be of one dtype. */
void check_tensors(const Tensors &tensors, at::ScalarType type, const char *call);
void check_outputs(const Tensors &tensors, at::ScalarType type, const char *call);

/* The tensor, or the list, that must be the only one. */
at::Tensor &single(Tensors &tensors, const char *call);
Tensors &single(Lists &lists, const char *call);

/* The elements of a plain tensor (see staging.h). */
Span span_of(const at::Tensor &plain);

/* True if all have the same number of elements. */
bool same_sizes(const Tensors &tensors);
/* The elements of all. */
int64_t count_all(const Tensors &tensors);
/* The number of elements of each, as plait.h takes counts. */
std::vector<size_t> counts_of(const Tensors &tensors);

} // namespace plait_torch
