#include "convert.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/ScalarType.h>

namespace plait_torch {

std::string dtype_name(at::ScalarType type)
{
    return std::string(c10::getDtypeNames(type).first);
}

plait_type element_type(at::ScalarType type)
{
    switch (type) {
    case at::kBool:
        return PLAIT_BOOL;
    case at::kChar:
        return PLAIT_I8;
    case at::kByte:
        return PLAIT_U8;
    case at::kShort:
        return PLAIT_I16;
    case at::kUInt16:
        return PLAIT_U16;
    case at::kInt:
        return PLAIT_I32;
    case at::kUInt32:
        return PLAIT_U32;
    case at::kLong:
        return PLAIT_I64;
    case at::kUInt64:
        return PLAIT_U64;
    case at::kFloat8_e4m3fn:
        return PLAIT_F8E4M3;
    case at::kFloat8_e5m2:
        return PLAIT_F8E5M2;
    case at::kHalf:
        return PLAIT_F16;
    case at::kBFloat16:
        return PLAIT_BF16;
    case at::kFloat:
        return PLAIT_F32;
    case at::kDouble:
        return PLAIT_F64;
    case at::kComplexFloat:
        return PLAIT_C64;
    case at::kComplexDouble:
        return PLAIT_C128;
    default:
        return PLAIT_BYTES;
    }
}

void check_tensor(const at::Tensor &tensor, const char *call)
{
    TORCH_CHECK_VALUE(tensor.defined(), "plait: ", call, " was given no tensor (None)");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "plait: ", call, " takes dense tensors and this one is ",
                      tensor.layout(), "; pass tensor.to_dense(); only all_reduce takes sparse ones, of the COO "
                      "layout");
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "plait: ", call, " works on CPU tensors and this one is on ",
                      tensor.device(), "; move it with .cpu(), or let another backend have that device: "
                      "init_process_group(\"cpu:plait,cuda:nccl\")");
    TORCH_CHECK_VALUE(!tensor.is_quantized(), "plait: ", call, " does not know scales of quantized tensors (",
                      dtype_name(tensor.scalar_type()), "); pass tensor.int_repr() or tensor.dequantize()");
}

void check_output(const at::Tensor &tensor, const char *call)
{
    check_tensor(tensor, call);
    TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes && !tensor._is_zerotensor(),
                      "plait: ", call, " can't write to a tensor of shape ", tensor.sizes(), " with strides ",
                      tensor.strides(), ", whose elements share memory (as expand() gives); pass tensor.contiguous()");
}

static void check_type(const at::Tensor &tensor, at::ScalarType type, const char *call)
{
    TORCH_CHECK_VALUE(tensor.scalar_type() == type, "plait: ", call, " needs tensors of one dtype and got ",
                      dtype_name(type), " and ", dtype_name(tensor.scalar_type()));
}

void check_tensors(const Tensors &tensors, at::ScalarType type, const char *call)
{
    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor, call);
        check_type(tensor, type, call);
    }
}

void check_outputs(const Tensors &tensors, at::ScalarType type, const char *call)
{
    for (const at::Tensor &tensor : tensors) {
        check_output(tensor, call);
        check_type(tensor, type, call);
    }
}

at::Tensor &single(Tensors &tensors, const char *call)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "plait: ", call, " takes one tensor a rank and got ", tensors.size());
    check_tensor(tensors[0], call);
    return tensors[0];
}

Tensors &single(Lists &lists, const char *call)
{
    TORCH_CHECK_VALUE(lists.size() == 1, "plait: ", call, " takes one list of tensors a rank and got ", lists.size());
    return lists[0];
}

Span span_of(const at::Tensor &plain)
{
    Span span;
    span.data = plain.numel() > 0 ? plain.mutable_data_ptr() : nullptr;
    span.type = element_type(plain.scalar_type());
    span.count = plain.nbytes() / plait_type_size(span.type);
    return span;
}

bool same_sizes(const Tensors &tensors)
{
    for (const at::Tensor &tensor : tensors)
        if (tensor.numel() != tensors[0].numel())
            return false;
    return true;
}

int64_t count_all(const Tensors &tensors)
{
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors)
        count += tensor.numel();
    return count;
}

std::vector<size_t> counts_of(const Tensors &tensors)
{
    std::vector<size_t> counts;
    for (const at::Tensor &tensor : tensors)
        counts.push_back(tensor.nbytes() / plait_type_size(element_type(tensor.scalar_type())));
    return counts;
}

} // namespace plait_torch
