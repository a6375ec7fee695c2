/* c10d's reductions, put to plait.h. */
#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

/* A reduction of one tensor into another: what a call of plait.h takes. */
struct Reduced {
    Span from, to;
    Reduction reduction;
};

/* Calls `start` for each, together if there are several. */
template <typename Start>
static void start_each(WorkPlait &work, const std::vector<Reduced> &calls, const Start &start)
{
    if (calls.size() == 1) {
        work.check(start(calls[0], work.slot()));
        return;
    }
    StartedTogether together;
    for (const Reduced &call : calls)
        work.check(start(call, work.slot()));
    work.check_together(together.end());
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    if (tensors.size() == 1 && tensors[0].defined() && tensors[0].is_sparse())
        return allreduce_sparse(tensors, opts); /* torch dispatches on the device alone */
    at::Tensor &tensor = single(tensors, "all_reduce");
    check_output(tensor, "all_reduce");
    Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, "all_reduce");
    auto work = make_work(OpType::ALLREDUCE, "plait:all_reduce", tensors);
    Span data = span_of(work->staging.in_place(tensor), reduction);
    work->outputs.push_back(tensor);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_allreduce(comm, data.data, data.data, data.count, data.type, reduction.op,
                                      started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce_coalesced(Tensors &tensors,
                                                                  const c10d::AllreduceCoalescedOptions &opts)
{
    std::vector<Reduced> calls;
    for (const at::Tensor &tensor : tensors) {
        check_output(tensor, "all_reduce_coalesced");
        calls.push_back({{}, {}, reduction_of(tensor.scalar_type(), opts.reduceOp, "all_reduce_coalesced")});
    }
    auto work = make_work(OpType::ALLREDUCE_COALESCED, "plait:all_reduce", tensors);
    for (size_t i = 0; i < tensors.size(); i++) {
        calls[i].to = span_of(work->staging.in_place(tensors[i]), calls[i].reduction);
        work->outputs.push_back(tensors[i]);
    }
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        start_each(started, calls, [&](const Reduced &call, plait_work **slot) {
            return plait_allreduce(comm, call.to.data, call.to.data, call.to.count, call.to.type, call.reduction.op,
                                   slot);
        });
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    at::Tensor &tensor = single(tensors, "reduce");
    check_root(opts.rootRank, "reduce");
    bool is_root = opts.rootRank == rank_;
    if (is_root)
        check_output(tensor, "reduce");
    Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, "reduce");
    auto work = make_work(OpType::REDUCE, "plait:reduce", tensors);
    Staging &staging = work->staging;
    Span data = span_of(is_root ? staging.in_place(tensor) : staging.input(tensor), reduction);
    work->outputs.push_back(tensor);
    int root = static_cast<int>(opts.rootRank);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_reduce(comm, data.data, is_root ? data.data : nullptr, data.count, data.type,
                                   reduction.op, root, started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::reduce_scatter(Tensors &outputs, Lists &inputs,
                                                             const c10d::ReduceScatterOptions &opts)
{
    at::Tensor &output = single(outputs, "reduce_scatter");
    check_output(output, "reduce_scatter");
    Tensors &list = single(inputs, "reduce_scatter");
    check_list(list, "reduce_scatter");
    check_tensors(list, output.scalar_type(), "reduce_scatter");
    int64_t own = list[static_cast<size_t>(rank_)].numel();
    TORCH_CHECK_VALUE(own == output.numel(), "plait: reduce_scatter has an output of ", output.numel(),
                      " elements and a list whose place ", rank_, " (this rank's) has ", own);
    Reduction reduction = reduction_of(output.scalar_type(), opts.reduceOp, "reduce_scatter");
    auto work = make_work(OpType::REDUCE_SCATTER, "plait:reduce_scatter", list);
    work->outputs.push_back(output);
    at::Tensor target = work->staging.output(output);
    std::vector<size_t> counts = counts_of(list);
    bool even = same_sizes(list);
    int64_t before = 0; /* bytes of the blocks of lower ranks */
    for (int rank = 0; rank < rank_; rank++)
        before += static_cast<int64_t>(list[static_cast<size_t>(rank)].nbytes());
    Span from = span_of(work->staging.apart(work->staging.inputs(list), target, -before), reduction);
    Span to = span_of(target, reduction);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(even ? plait_reduce_scatter(comm, from.data, to.data, to.count, to.type, reduction.op,
                                                  started.slot())
                           : plait_reduce_scatterv(comm, from.data, to.data, counts.data(), to.type, reduction.op,
                                                   started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                                   const c10d::ReduceScatterOptions &opts)
{
    Tensors outputs = {output}, inputs = {input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupPlait::WorkPtr
ProcessGroupPlait::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                   const c10d::ReduceScatterOptions &opts)
{
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "plait: reduce_scatter_tensor got ", inputs.size(),
                      " inputs and ", outputs.size(), " outputs");
    std::vector<Reduced> calls;
    for (size_t i = 0; i < inputs.size(); i++) {
        check_blocks(inputs[i], outputs[i], "reduce_scatter_tensor");
        check_output(outputs[i], "reduce_scatter_tensor");
        calls.push_back({{}, {}, reduction_of(inputs[i].scalar_type(), opts.reduceOp, "reduce_scatter_tensor")});
    }
    auto work = make_work(inputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE : OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                          "plait:reduce_scatter", inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
        Staging &staging = work->staging;
        at::Tensor to = staging.output(outputs[i]);
        at::Tensor from = staging.apart(staging.input(inputs[i]), to, -rank_ * static_cast<int64_t>(to.nbytes()));
        calls[i].from = span_of(from, calls[i].reduction);
        calls[i].to = span_of(to, calls[i].reduction);
        work->outputs.push_back(outputs[i]);
    }
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        start_each(started, calls, [&](const Reduced &call, plait_work **slot) {
            return plait_reduce_scatter(comm, call.from.data, call.to.data, call.to.count, call.to.type,
                                        call.reduction.op, slot);
        });
    });
}

} // namespace plait_torch
