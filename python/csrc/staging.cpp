#include "staging.h"

#include <cstring>

#include <ATen/core/LegacyTypeDispatch.h>

namespace plait_torch {

static bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

static at::Tensor empty_like(const at::Tensor &tensor, int64_t count)
{
    return at::empty({count}, tensor.options().requires_grad(false).pinned_memory(false));
}

/* True if plain tensors lie one after another in memory, as slices of one buffer do. */
static bool are_consecutive(const Tensors &tensors)
{
    const char *next = nullptr;
    for (const at::Tensor &tensor : tensors) {
        if (!is_plain(tensor) || tensor.numel() == 0)
            return false;
        const char *data = static_cast<const char *>(tensor.const_data_ptr());
        if ((next != nullptr && data != next) || !tensor.storage().is_alias_of(tensors[0].storage()))
            return false;
        next = data + tensor.nbytes();
    }
    return true;
}

/* All of them as one flat tensor; the caller holds on to the originals. */
static at::Tensor joined(const Tensors &tensors)
{
    return at::from_blob(tensors[0].mutable_data_ptr(), {count_all(tensors)},
                         at::TensorOptions().dtype(tensors[0].scalar_type()));
}

static void copy_elements(const at::Tensor &to, const at::Tensor &from)
{
    /* memcpy where it does: copy_() may start an OpenMP team on this thread. */
    if (is_plain(to) && is_plain(from)) {
        if (to.nbytes() > 0)
            std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
        return;
    }
    at::AutoDispatchBelowADInplaceOrView guard; /* nothing here is for autograd */
    to.copy_(from.view(to.sizes()));
}

at::Tensor Staging::input(const at::Tensor &tensor)
{
    at::Tensor plain = tensor;
    if (!is_plain(tensor)) {
        at::AutoDispatchBelowADInplaceOrView guard;
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

at::Tensor Staging::inputs(const Tensors &tensors)
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

at::Tensor Staging::outputs(const Tensors &tensors)
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

at::Tensor Staging::apart(const at::Tensor &from, const at::Tensor &to, int64_t distance)
{
    if (from.numel() == 0 || to.numel() == 0)
        return from;
    const auto *source = static_cast<const char *>(from.const_data_ptr());
    const auto *target = static_cast<const char *>(to.const_data_ptr());
    bool overlap = source < target + to.nbytes() && target < source + from.nbytes();
    if (!overlap || source - target == distance)
        return from;
    kept_.push_back(from.clone());
    return kept_.back();
}

void Staging::copy_back()
{
    for (auto &[to, from] : copies_)
        copy_elements(to, from);
}

} // namespace plait_torch
