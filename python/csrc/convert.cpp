#include "convert.h"

#include <cstring>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/ScalarType.h>

namespace plait_torch {

/* "float32". */
static std::string name_of(at::ScalarType type)
{
    return std::string(c10::getDtypeNames(type).first);
}

void check_tensor(const at::Tensor &tensor, const char *call)
{
    TORCH_CHECK_VALUE(tensor.defined(), "plait: ", call, " was given no tensor (None)");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "plait: ", call, " takes dense tensors and this one is ",
                      tensor.layout(), "; pass tensor.to_dense(), or sum its indices and values by hand");
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "plait: ", call, " works on CPU tensors and this one is on ",
                      tensor.device(), "; move it with .cpu(), or let another backend have that device: "
                      "init_process_group(\"cpu:plait,cuda:nccl\")");
}

void check_tensors(const std::vector<at::Tensor> &tensors, at::ScalarType type, const char *call)
{
    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor, call);
        TORCH_CHECK_VALUE(tensor.scalar_type() == type, "plait: ", call, " needs tensors of one dtype and got ",
                          name_of(type), " and ", name_of(tensor.scalar_type()));
    }
}

at::Tensor &single(std::vector<at::Tensor> &tensors, const char *call)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "plait: ", call, " takes one tensor a rank and got ", tensors.size());
    check_tensor(tensors[0], call);
    return tensors[0];
}

std::vector<at::Tensor> &single(std::vector<std::vector<at::Tensor>> &lists, const char *call)
{
    TORCH_CHECK_VALUE(lists.size() == 1, "plait: ", call, " takes one list of tensors a rank and got ", lists.size());
    return lists[0];
}

/* The type of plait.h with the same meaning, or 0. */
static int type_of(at::ScalarType type)
{
    switch (type) {
    case at::kChar:
        return PLAIT_I8;
    case at::kByte:
        return PLAIT_U8;
    case at::kInt:
        return PLAIT_I32;
    case at::kUInt32:
        return PLAIT_U32;
    case at::kLong:
        return PLAIT_I64;
    case at::kUInt64:
        return PLAIT_U64;
    case at::kHalf:
        return PLAIT_F16;
    case at::kBFloat16:
        return PLAIT_BF16;
    case at::kFloat:
        return PLAIT_F32;
    case at::kDouble:
        return PLAIT_F64;
    default:
        return 0;
    }
}

/* Bools are 0 or 1, for which bytewise max is "or" and min is "and". */
static int op_on_bools(c10d::ReduceOp::RedOpType op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR:
        return PLAIT_MAX;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND:
        return PLAIT_MIN;
    default:
        return 0;
    }
}

static int op_on_numbers(c10d::ReduceOp::RedOpType op)
{
    switch (op) {
    case c10d::ReduceOp::SUM:
        return PLAIT_SUM;
    case c10d::ReduceOp::AVG:
        return PLAIT_AVERAGE;
    case c10d::ReduceOp::PRODUCT:
        return PLAIT_PRODUCT;
    case c10d::ReduceOp::MIN:
        return PLAIT_MIN;
    case c10d::ReduceOp::MAX:
        return PLAIT_MAX;
    default:
        return 0;
    }
}

static const char *op_name(c10d::ReduceOp::RedOpType op)
{
    static const char *const names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
    size_t place = static_cast<size_t>(op);
    return place < sizeof names / sizeof names[0] ? names[place] : "an unknown operation";
}

Reduction reduction_of(at::ScalarType type, const c10d::ReduceOp &op, const char *call)
{
    if (type == at::kBool) {
        int logical = op_on_bools(op);
        TORCH_CHECK_VALUE(logical != 0, "plait: ", call, " of bool does not know ", op_name(op),
                          "; it knows SUM, MAX and BOR (or), PRODUCT, MIN and BAND (and)");
        return {PLAIT_U8, static_cast<plait_op>(logical)};
    }
    int element = type_of(type);
    TORCH_CHECK_VALUE(element != 0, "plait: ", call, " can't reduce ", name_of(type),
                      "; it reduces int8, uint8, int32, uint32, int64, uint64, float16, bfloat16, float32, float64 "
                      "and bool");
    int operation = op_on_numbers(op);
    TORCH_CHECK_VALUE(operation != 0, "plait: ", call, " does not know ", op_name(op), " on ", name_of(type),
                      "; it knows SUM, AVG, PRODUCT, MIN and MAX");
    return {static_cast<plait_type>(element), static_cast<plait_op>(operation)};
}

Span span_of(const at::Tensor &plain)
{
    int type = type_of(plain.scalar_type());
    Span span;
    span.data = plain.numel() > 0 ? plain.mutable_data_ptr() : nullptr;
    span.type = type != 0 ? static_cast<plait_type>(type) : PLAIT_U8;
    span.count = static_cast<size_t>(plain.numel()) * (plain.element_size() / plait_type_size(span.type));
    return span;
}

Span span_of(const at::Tensor &plain, const Reduction &reduction)
{
    Span span = span_of(plain);
    span.type = reduction.type;
    return span;
}

Span span_part(const Span &span, size_t first, size_t count)
{
    Span part = span;
    if (part.data != nullptr)
        part.data = static_cast<char *>(span.data) + first * plait_type_size(span.type);
    part.count = count;
    return part;
}

bool same_sizes(const std::vector<at::Tensor> &tensors)
{
    for (const at::Tensor &tensor : tensors)
        if (tensor.numel() != tensors[0].numel())
            return false;
    return true;
}

static bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

static at::Tensor empty_like(const at::Tensor &tensor, int64_t count)
{
    return at::empty({count}, tensor.options().requires_grad(false).pinned_memory(false));
}

/* True if plain tensors lie one after another in memory, as slices of one buffer do. */
static bool are_consecutive(const std::vector<at::Tensor> &tensors)
{
    const char *next = nullptr;
    for (const at::Tensor &tensor : tensors) {
        const char *data = static_cast<const char *>(tensor.const_data_ptr());
        if (!is_plain(tensor) || data == nullptr || (next != nullptr && data != next) ||
            !tensor.storage().is_alias_of(tensors[0].storage()))
            return false;
        next = data + tensor.nbytes();
    }
    return true;
}

static int64_t count_all(const std::vector<at::Tensor> &tensors)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors)
        count += tensor.numel();
    return count;
}

/* All of them as one flat tensor; the caller holds on to the originals. */
static at::Tensor joined(const std::vector<at::Tensor> &tensors)
{
    return at::from_blob(tensors[0].mutable_data_ptr(), {count_all(tensors)},
                         at::TensorOptions().dtype(tensors[0].scalar_type()));
}

void Staging::copy(const at::Tensor &to, const at::Tensor &from)
{
    /* memcpy where it does: copy_() may start an OpenMP team on this thread. */
    if (is_plain(to) && is_plain(from)) {
        if (to.nbytes() > 0)
            std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
        return;
    }
    at::AutoDispatchBelowADInplaceOrView guard; /* nothing here is for autograd */
    to.copy_(from.view_as(to));
}

at::Tensor Staging::input(const at::Tensor &tensor)
{
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor plain = tensor;
    if (!is_plain(tensor)) {
        plain = empty_like(tensor, tensor.numel());
        plain.view(tensor.sizes()).copy_(tensor);
    }
    kept_.push_back(plain);
    return plain;
}

at::Tensor Staging::output(const at::Tensor &tensor)
{
    at::Tensor plain = tensor;
    if (!is_plain(tensor)) {
        plain = empty_like(tensor, tensor.numel());
        copies_.emplace_back(tensor, plain);
    }
    kept_.push_back(plain);
    return plain;
}

at::Tensor Staging::in_place(const at::Tensor &tensor)
{
    at::Tensor plain = input(tensor);
    if (!plain.is_same(tensor))
        copies_.emplace_back(tensor, plain);
    return plain;
}

at::Tensor Staging::inputs(const std::vector<at::Tensor> &tensors)
{
    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    if (are_consecutive(tensors))
        return joined(tensors);
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor flat = empty_like(tensors[0], count_all(tensors));
    int64_t first = 0;
    for (const at::Tensor &tensor : tensors) {
        flat.narrow(0, first, tensor.numel()).view(tensor.sizes()).copy_(tensor);
        first += tensor.numel();
    }
    kept_.push_back(flat);
    return flat;
}

at::Tensor Staging::outputs(const std::vector<at::Tensor> &tensors)
{
    kept_.insert(kept_.end(), tensors.begin(), tensors.end());
    if (are_consecutive(tensors))
        return joined(tensors);
    at::Tensor flat = empty_like(tensors[0], count_all(tensors));
    int64_t first = 0;
    for (const at::Tensor &tensor : tensors) {
        copies_.emplace_back(tensor, flat.narrow(0, first, tensor.numel()));
        first += tensor.numel();
    }
    kept_.push_back(flat);
    return flat;
}

void Staging::copy_back()
{
    for (auto &[to, from] : copies_)
        copy(to, from);
}

} // namespace plait_torch
