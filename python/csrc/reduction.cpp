#include "reduction.h"

#include <cmath>

namespace plait_torch {

using c10d::ReduceOp;

constexpr struct {
    ReduceOp::RedOpType torch;
    plait_op plait;
    const char *name;
} operations[] = {
    {ReduceOp::SUM, PLAIT_SUM, "SUM"},      {ReduceOp::AVG, PLAIT_AVERAGE, "AVG"},
    {ReduceOp::PRODUCT, PLAIT_PRODUCT, "PRODUCT"}, {ReduceOp::MIN, PLAIT_MIN, "MIN"},
    {ReduceOp::MAX, PLAIT_MAX, "MAX"},      {ReduceOp::BAND, PLAIT_BIT_AND, "BAND"},
    {ReduceOp::BOR, PLAIT_BIT_OR, "BOR"},   {ReduceOp::BXOR, PLAIT_BIT_XOR, "BXOR"},
};

/* "SUM, AVG, ...": what there is for tensors of `type`. */
static std::string good_operations(plait_type type)
{
    std::string names;
    for (const auto &operation : operations)
        if (plait_type_reduces(type, operation.plait))
            names += (names.empty() ? "" : ", ") + std::string(operation.name);
    return names;
}

/* The factor as one number; whole where `type` is. */
static at::Scalar factor_of(const ReduceOp &op, const char *call)
{
    const auto *given = dynamic_cast<const c10d::PreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK_VALUE(given != nullptr, "plait: ", call, " got PREMUL_SUM without a factor; make it with "
                      "torch.distributed._make_nccl_premul_sum(factor)");
    return given->tensor_factor.defined() ? given->tensor_factor.item() : at::Scalar(given->double_factor);
}

static void check_whole(const at::Scalar &factor, at::ScalarType type, const char *call)
{
    double number = factor.isIntegral(true) ? 0 : factor.toDouble();
    TORCH_CHECK_VALUE(number == std::floor(number) && std::abs(number) < 9.2e18, "plait: ", call, " of ",
                      dtype_name(type), " with PREMUL_SUM needs a whole factor and got ", number);
}

/* The operation lives as long as a copy of what is returned; calls under way keep it, too. */
static Reduction premultiplied(plait_type type, at::ScalarType torch_type, const ReduceOp &op, const char *call)
{
    at::Scalar factor = factor_of(op, call);
    const bool integral = c10::isIntegralType(torch_type, /*includeBool=*/false);
    TORCH_CHECK_VALUE(!factor.isComplex() || c10::isComplexType(torch_type), "plait: ", call, " of ",
                      dtype_name(torch_type), " with PREMUL_SUM got a complex factor");
    if (integral)
        check_whole(factor, torch_type, call);
    /* plait.h takes one element of the type, a float for floats of fewer bits. */
    at::ScalarType element = torch_type;
    if (c10::isFloatingType(torch_type) && plait_type_size(type) < sizeof(float))
        element = at::kFloat;
    at::Tensor one = at::empty({1}, at::TensorOptions().dtype(integral ? at::kLong : element));
    one.fill_(factor);
    plait_op made;
    /* The low bytes of a little-endian int64 are the number modulo 2^bits. */
    plait_status status = plait_op_create_premul(type, one.const_data_ptr(), &made);
    TORCH_CHECK_VALUE(status != PLAIT_INVALID_ARGUMENT, "plait: ", call, " does not know PREMUL_SUM of ",
                      dtype_name(torch_type), "; it knows ", good_operations(type));
    TORCH_CHECK_WITH(DistBackendError, status == PLAIT_OK, "plait: ", call, ": ", plait_last_error());
    auto owner = std::shared_ptr<const void>(nullptr, [made](const void *) { plait_op_destroy(made); });
    return {type, made, std::move(owner)};
}

Reduction reduction_of(at::ScalarType type, const ReduceOp &op, const char *call)
{
    plait_type element = element_type(type);
    TORCH_CHECK_VALUE(element != PLAIT_BYTES, "plait: ", call, " can't reduce ", dtype_name(type),
                      "; it reduces bool, int8 to int64, uint8 to uint64, float8_e4m3fn, float8_e5m2, float16, "
                      "bfloat16, float32, float64, complex64 and complex128");
    if (op.op_ == ReduceOp::PREMUL_SUM)
        return premultiplied(element, type, op, call);
    for (const auto &operation : operations) {
        if (operation.torch != op.op_)
            continue;
        TORCH_CHECK_VALUE(plait_type_reduces(element, operation.plait), "plait: ", call, " does not know ",
                          operation.name, " of ", dtype_name(type), "; it knows ", good_operations(element));
        return {element, operation.plait};
    }
    TORCH_CHECK_VALUE(false, "plait: ", call, " got an unknown reduction (number ", static_cast<int>(op.op_),
                      "); it knows ", good_operations(element));
}

} // namespace plait_torch
