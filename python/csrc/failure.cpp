#include <pybind11/pybind11.h>

#include "failure.h"

#include <sstream>

namespace plait_torch {

static const char *fault_name(plait_fault_kind kind)
{
    switch (kind) {
    case PLAIT_FAULT_DIED:
        return "died";
    case PLAIT_FAULT_LEFT:
        return "left";
    case PLAIT_FAULT_NOT_ENTERED:
        return "has not entered the operation";
    case PLAIT_FAULT_STUCK:
        return "is stuck in the operation";
    case PLAIT_FAULT_MISMATCH:
        return "made another call";
    case PLAIT_FAULT_ABORTED:
        return "aborted";
    case PLAIT_FAULT_FUNCTION:
        return "had a function that failed";
    case PLAIT_FAULT_NO_MEMORY:
        return "has no memory";
    default:
        return "";
    }
}

static void describe_fault(std::ostream &text, const plait_fault &fault)
{
    text << "; fault: rank " << fault.culprit;
    if (fault.host[0] != '\0')
        text << " (host " << fault.host << ", pid " << fault.pid << ")";
    text << " " << fault_name(fault.kind);
    if (fault.operation_number != 0)
        text << ", operation " << fault.operation_number << ", " << fault.call;
    if (fault.evidence[0] != '\0')
        text << ", evidence: " << fault.evidence;
}

static plait_fault no_fault()
{
    plait_fault fault = {};
    fault.struct_size = sizeof fault;
    fault.culprit = -1;
    return fault;
}

[[noreturn]] static void throw_with(plait_status status, const std::string &message, const plait_fault &fault)
{
    if (status == PLAIT_INVALID_ARGUMENT)
        C10_THROW_ERROR(ValueError, message);
    throw Failure({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message, status, fault);
}

void throw_failure(plait_status status, const plait_work *work, const char *title, const Place &place)
{
    std::ostringstream text;
    text << title << ": " << (status == PLAIT_TIMED_OUT ? "Timed out in " : "") << plait_last_error() << " ["
         << plait_status_name(status) << " on " << *place;
    plait_fault fault = no_fault();
    if (work != nullptr && plait_work_fault(work, &fault) == PLAIT_OK && fault.kind != PLAIT_FAULT_NONE)
        describe_fault(text, fault);
    text << "]";
    throw_with(status, text.str(), fault);
}

void throw_failure(plait_status status, const std::string &message)
{
    throw_with(status, message, no_fault());
}

/* ----------------------------------------------------------------- python */

static void set_python_error(const Failure &failure)
{
    namespace py = pybind11;
    py::object type = py::module_::import("torch.distributed").attr("DistBackendError");
    py::object error = type(failure.what_without_backtrace());
    const plait_fault &fault = failure.fault;
    error.attr("status") = plait_status_name(failure.status);
    error.attr("kind") = fault.kind == PLAIT_FAULT_NONE ? "" : fault_name(fault.kind);
    error.attr("culprit") = fault.culprit;
    error.attr("pid") = fault.pid;
    error.attr("host") = fault.host;
    error.attr("operation") = fault.operation;
    error.attr("operation_number") = fault.operation_number;
    error.attr("call") = fault.call;
    error.attr("evidence") = fault.evidence;
    error.attr("communicator") = fault.communicator;
    PyErr_SetObject(type.ptr(), error.ptr());
}

void register_failures()
{
    pybind11::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown)
                std::rethrow_exception(thrown);
        } catch (const Failure &failure) {
            set_python_error(failure);
        } /* others are for torch's own translator */
    });
}

} // namespace plait_torch
