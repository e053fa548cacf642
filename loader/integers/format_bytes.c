#include "loader/integers/format_bytes.h"

#include "loader/integers/int8.h"

bool yk_bytes_are_ready(const yk_weight_view *weight)
{
  (void)weight;
  return false;
}

size_t yk_bytes_repacked_bytes(const yk_slice_source *source)
{
  return yk_int8_repacked_bytes(source->weight, &source->slice, source->order, source->group_local);
}

yk_status yk_bytes_repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                          yk_err *err)
{
  yk_weight_view repacked;
  YK_TRY(
      yk_int8_repack(source->weight, &source->slice, source->order, source->group_local, pool, buffer, &repacked, err));
  *out = (yk_repacked_slice){repacked, {0, repacked.k, 0, repacked.n}};
  return YK_OK;
}
