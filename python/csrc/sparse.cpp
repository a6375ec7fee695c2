/* All-reduce of sparse tensors: each rank gathers everyone's entries and adds up. */
#include <ATen/core/LegacyTypeDispatch.h>

#include "process_group.h"

namespace plait_torch {

using c10d::OpType;
using c10d::ReduceOp;

/* What ranks tell each other of their tensors before: kind of dimensions, entries, and the shape. */
constexpr int64_t most_dimensions = 16;
constexpr int64_t facts_count = 3 + most_dimensions;

static at::Tensor facts_of(const at::Tensor &sparse)
{
    at::Tensor facts = at::zeros({facts_count}, at::kLong);
    auto *fact = facts.mutable_data_ptr<int64_t>();
    fact[0] = sparse._nnz();
    fact[1] = sparse.sparse_dim();
    fact[2] = sparse.dense_dim();
    for (int64_t i = 0; i < sparse.dim(); i++)
        fact[3 + i] = sparse.size(i);
    return facts;
}

static std::string shape_of(const int64_t *fact)
{
    return c10::str(at::IntArrayRef(fact + 3, static_cast<size_t>(std::min(fact[1] + fact[2], most_dimensions))),
                    " with ", fact[1], " sparse dimensions");
}

/* Throws on every rank if shapes differ; everyone sees the same facts. */
static void compare_shapes(const at::Tensor &facts, int ranks)
{
    const auto *first = facts.const_data_ptr<int64_t>();
    for (int rank = 1; rank < ranks; rank++) {
        const int64_t *fact = first + rank * facts_count;
        TORCH_CHECK_WITH(DistBackendError, std::equal(first + 1, first + facts_count, fact + 1),
                         "plait: ranks called all_reduce of sparse tensors of different shapes: rank 0 of ",
                         shape_of(first), ", rank ", rank, " of ", shape_of(fact));
    }
}

static void check_sparse(const at::Tensor &tensor, const ReduceOp &op)
{
    TORCH_CHECK_VALUE(tensor.layout() == at::kSparse, "plait: all_reduce takes dense tensors and sparse ones of the "
                      "COO layout, and this one is ", tensor.layout(), "; pass tensor.to_sparse_coo() or .to_dense()");
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "plait: all_reduce works on CPU tensors and this one is on ",
                      tensor.device());
    TORCH_CHECK_VALUE(op.op_ == ReduceOp::SUM || op.op_ == ReduceOp::AVG,
                      "plait: all_reduce of sparse tensors knows SUM and AVG only");
    TORCH_CHECK_VALUE(tensor.dim() <= most_dimensions, "plait: all_reduce of sparse tensors takes at most ",
                      most_dimensions, " dimensions and this one has ", tensor.dim());
    reduction_of(tensor.scalar_type(), op, "all_reduce");
}

/* Blocks until all ranks have come, for the numbers of entries; what follows is under way as any call is. */
ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "plait: all_reduce takes one tensor a rank and got ", tensors.size());
    at::Tensor tensor = tensors[0];
    check_sparse(tensor, opts.reduceOp);
    TORCH_CHECK(open_batch() == nullptr, "plait: all_reduce of sparse tensors can't be part of a batch");
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor own = tensor.coalesce();

    at::Tensor facts = at::empty({size_ * facts_count}, at::kLong), mine = facts_of(own);
    c10d::AllgatherOptions blocking;
    blocking.timeout = opts.timeout;
    blocking.asyncOp = false;
    _allgather_base(facts, mine, blocking);
    compare_shapes(facts, size_);

    std::vector<size_t> index_counts, value_counts;
    int64_t entries = 0;
    size_t value_size = 1; /* elements of one entry */
    for (int64_t size : own.sizes().slice(static_cast<size_t>(own.sparse_dim())))
        value_size *= static_cast<size_t>(size);
    for (int rank = 0; rank < size_; rank++) {
        int64_t count = facts.const_data_ptr<int64_t>()[rank * facts_count];
        entries += count;
        index_counts.push_back(static_cast<size_t>(count * own.sparse_dim()));
        value_counts.push_back(static_cast<size_t>(count) * value_size);
    }
    auto work = make_work(OpType::_ALLREDUCE_SPARSE, "plait:all_reduce_sparse", {});
    work->outputs.push_back(tensor);
    Staging &staging = work->staging;
    /* Entries are rows here, so that those of the ranks follow each other. */
    at::Tensor indices = staging.output(at::empty({entries, own.sparse_dim()}, at::kLong));
    std::vector<int64_t> shape = own._values().sizes().vec();
    shape[0] = entries;
    at::Tensor values = staging.output(at::empty(shape, own._values().options().requires_grad(false)));
    Span own_indices = span_of(staging.input(own._indices().t())), own_values = span_of(staging.input(own._values()));
    Span all_indices = span_of(indices), all_values = span_of(values);
    int divisor = opts.reduceOp.op_ == ReduceOp::AVG ? size_ : 1;
    work->finish_late = [=]() mutable {
        at::AutoDispatchBelowADInplaceOrView below;
        at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices.t(), values, tensor.sizes()).coalesce();
        if (divisor > 1 && c10::isIntegralType(sum.scalar_type(), true))
            sum._values().div_(divisor, "trunc");
        else if (divisor > 1)
            sum._values().div_(divisor);
        tensor.copy_(sum);
    };
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        StartedTogether together;
        started.check(plait_allgatherv(comm, own_indices.data, own_indices.count, all_indices.data,
                                       index_counts.data(), nullptr, own_indices.type, started.slot()));
        started.check(plait_allgatherv(comm, own_values.data, own_values.count, all_values.data, value_counts.data(),
                                       nullptr, own_values.type, started.slot()));
        started.check_together(together.end());
    });
}

} // namespace plait_torch
