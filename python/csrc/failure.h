/* Failures of plait.h as exceptions of torch's, with the fault's fields. */
#pragma once

#include <memory>
#include <string>

#include <c10/util/Exception.h>

#include "plait.h"

namespace plait_torch {

/* Where an operation is, for messages: "rank 0 of 2 of group 0". Made once a group. */
using Place = std::shared_ptr<const std::string>;

/*
 * What went wrong between ranks. In python a torch.distributed.DistBackendError with attributes (see
 * register_failures()); everything of torch's that knows nothing of this class sees the base class.
 */
class Failure : public c10::DistBackendError {
  public:
    Failure(c10::SourceLocation where, const std::string &message, plait_status status_, const plait_fault &fault_)
        : DistBackendError(where, message), status(status_), fault(fault_)
    {
    }

    const plait_status status;
    const plait_fault fault; /* of kind PLAIT_FAULT_NONE if there is none */
};

/*
 * Throws what a failed call or work has to say: plait.h's sentence, then the fault's fields. ValueError for
 * arguments, Failure else. `work` may be NULL: the call failed before there was one.
 */
[[noreturn]] void throw_failure(plait_status status, const plait_work *work, const char *title, const Place &place);
/* The same with a sentence of the caller's. */
[[noreturn]] void throw_failure(plait_status status, const std::string &message);

/* Has python see Failures as DistBackendErrors with attributes. Once, at import. */
void register_failures();

} // namespace plait_torch
