#include "parallel/cluster/frame.h"

yk_status yk_frame_check(const yk_frame *frame, yk_frame_type type, yk_frame_type other, uint64_t max_bytes,
                         yk_err *err)
{
  if (frame->magic != YK_FRAME_MAGIC)
    return yk_err_set(err, YK_E_COMM, "expected a message of Yoke, found other bytes (0x%08x)", frame->magic);
  if (frame->version != YK_FRAME_VERSION)
    return yk_err_set(err, YK_E_COMM,
                      "expected version %d of the messages between processes, found %d: run the same version of Yoke "
                      "in all processes",
                      YK_FRAME_VERSION, frame->version);
  if (frame->type != type && frame->type != other)
    return yk_err_set(err, YK_E_COMM, "expected a message of type %d, found type %d", type, frame->type);
  if (frame->n_bytes > max_bytes)
    return yk_err_set(err, YK_E_COMM, "expected a message of at most %llu bytes, found %llu",
                      (unsigned long long)max_bytes, (unsigned long long)frame->n_bytes);
  return YK_OK;
}
