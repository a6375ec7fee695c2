/* c10d's all-to-alls, put to plait.h. */
#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

/* One rank's side of an all-to-all whose blocks follow each other. */
struct Blocks {
    Span span;
    std::vector<size_t> counts; /* elements, one block a rank; the same for all if even */
};

/* Elements of each block of a tensor whose rows are dealt out by `splits`; none means evenly. */
static std::vector<size_t> row_counts(const at::Tensor &tensor, const std::vector<int64_t> &splits, int ranks,
                                      const char *what)
{
    TORCH_CHECK_VALUE(tensor.dim() > 0, "plait: all_to_all_single deals out rows and the ", what, " is 0-dimensional");
    int64_t rows = tensor.size(0);
    TORCH_CHECK_VALUE(!splits.empty() || rows % ranks == 0, "plait: all_to_all_single can't deal ", rows,
                      " rows of the ", what, " evenly to ", ranks, " ranks; give split sizes");
    TORCH_CHECK_VALUE(splits.empty() || splits.size() == static_cast<size_t>(ranks), "plait: all_to_all_single got ",
                      splits.size(), " ", what, " split sizes for ", ranks, " ranks");
    size_t row = rows > 0 ? span_of(tensor).count / static_cast<size_t>(rows) : 0;
    std::vector<size_t> counts;
    int64_t first = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int64_t count = splits.empty() ? rows / ranks : splits[static_cast<size_t>(rank)];
        TORCH_CHECK_VALUE(count >= 0 && count <= rows - first, "plait: the ", what,
                          " split sizes of all_to_all_single must be 0 or more and sum to its ", rows, " rows");
        counts.push_back(static_cast<size_t>(count) * row);
        first += count;
    }
    TORCH_CHECK_VALUE(first == rows, "plait: the ", what, " split sizes of all_to_all_single sum to ", first,
                      " and it has ", rows, " rows");
    return counts;
}

/* `from` and `to` are plain. */
static std::pair<Blocks, Blocks> sides(Staging &staging, const at::Tensor &from, const at::Tensor &to,
                                       std::vector<size_t> input_counts, std::vector<size_t> output_counts)
{
    /* In place is fine where the blocks are at the same places both ways; a distance of 1 never is. */
    bool same_places = input_counts == output_counts;
    at::Tensor apart = staging.apart(from, to, same_places ? 0 : 1);
    return {{span_of(apart), std::move(input_counts)}, {span_of(to), std::move(output_counts)}};
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::alltoall_base(at::Tensor &output, at::Tensor &input,
                                                            std::vector<int64_t> &output_splits,
                                                            std::vector<int64_t> &input_splits,
                                                            const c10d::AllToAllOptions &opts)
{
    check_tensor(input, "all_to_all_single");
    check_outputs({output}, input.scalar_type(), "all_to_all_single");
    std::vector<size_t> input_counts = row_counts(input, input_splits, size_, "input");
    std::vector<size_t> output_counts = row_counts(output, output_splits, size_, "output");
    bool even = input_splits.empty() && output_splits.empty(); /* then it is on every rank */
    TORCH_CHECK_VALUE(!even || input.numel() == output.numel(), "plait: all_to_all_single without split sizes needs "
                      "tensors of one size and got ", input.numel(), " and ", output.numel(), " elements");
    size_t own = static_cast<size_t>(rank_);
    TORCH_CHECK_VALUE(input_counts[own] == output_counts[own], "plait: all_to_all_single has ", input_counts[own],
                      " elements for this rank itself and room for ", output_counts[own]);
    auto work = make_work(OpType::ALLTOALL_BASE, "plait:all_to_all", {input});
    work->outputs.push_back(output);
    if (work->record != nullptr) {
        work->record->input_splits = input_splits;
        work->record->output_splits = output_splits;
    }
    Staging &staging = work->staging;
    auto [sends, takes] = sides(staging, staging.input(input), staging.output(output), std::move(input_counts),
                                std::move(output_counts));
    return run(work, opts.timeout, opts.asyncOp,
               [even, sends = std::move(sends), takes = std::move(takes)](plait_comm *comm, WorkPlait &started) {
                   started.check(even ? plait_alltoall(comm, sends.span.data, takes.span.data, sends.counts[0],
                                                       sends.span.type, started.slot())
                                      : plait_alltoallv(comm, sends.span.data, sends.counts.data(), nullptr,
                                                        takes.span.data, takes.counts.data(), nullptr,
                                                        sends.span.type, started.slot()));
               });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::alltoall(Tensors &outputs, Tensors &inputs,
                                                       const c10d::AllToAllOptions &opts)
{
    check_list(inputs, "all_to_all");
    check_list(outputs, "all_to_all");
    check_tensor(inputs[0], "all_to_all");
    check_tensors(inputs, inputs[0].scalar_type(), "all_to_all");
    check_outputs(outputs, inputs[0].scalar_type(), "all_to_all");
    size_t own = static_cast<size_t>(rank_);
    TORCH_CHECK_VALUE(inputs[own].numel() == outputs[own].numel(), "plait: all_to_all has ", inputs[own].numel(),
                      " elements for this rank itself and room for ", outputs[own].numel());
    auto work = make_work(OpType::ALLTOALL, "plait:all_to_all", inputs);
    work->outputs.insert(work->outputs.end(), outputs.begin(), outputs.end());
    Staging &staging = work->staging;
    auto [sends, takes] = sides(staging, staging.inputs(inputs), staging.outputs(outputs), counts_of(inputs),
                                counts_of(outputs));
    return run(work, opts.timeout, opts.asyncOp,
               [sends = std::move(sends), takes = std::move(takes)](plait_comm *comm, WorkPlait &started) {
                   started.check(plait_alltoallv(comm, sends.span.data, sends.counts.data(), nullptr,
                                                 takes.span.data, takes.counts.data(), nullptr, sends.span.type,
                                                 started.slot()));
               });
}

} // namespace plait_torch
