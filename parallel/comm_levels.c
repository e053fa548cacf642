#include "parallel/comm_levels.h"

#include "base/checked.h"

enum { PACKET_BYTES = 16 };

/* Estimates from the rates of links, not measured. With b bytes, h hosts of n GPUs, steps of 12 us between hosts, 45
 * GB/s of a 400 Gb/s card, and three launches more of SLICES (3 us):
 *
 *   GATHER  ceil(log2 h) 12 us + (h - 1) b / 45 GB/s                    with one card for n GPUs: n times the bytes
 *   SLICES  2 ceil(log2 h) 12 us + 2 (h - 1) / h b / n / 45 GB/s + 3 us
 *
 * For n = 8 they are equal at 770 KiB for 2 hosts, 430 KiB for 4 and 260 KiB for 8, and with one card for all GPUs of
 * a host at 95, 55 and 33 KiB. The table has values between the two measurements: the loss is at most 25 us in either
 * case. */
static const struct {
  int most_hosts;
  int64_t bytes;
} gather_crossovers[] = {{2, 256 << 10}, {4, 128 << 10}, {YK_LEVELS_MAX_HOSTS, 64 << 10}};

/* From 8 MiB on, the most that slots hold, one level is the better one by the same rates: within NCCL's ring the
 * network and NVLink are busy at the same time (110 us for 8 MiB on 2 hosts of 8, as SLICES; less for more bytes). */
static int64_t slice_bytes_of(const yk_p2p_options *slots, int n_local)
{
  const int64_t n_bytes = slots->max_bytes / (PACKET_BYTES * n_local) * (PACKET_BYTES * n_local);
  return yk_p2p_takes_slices(slots, n_local, n_bytes) ? n_bytes : 0;
}

static int64_t gather_bytes_of(int n_hosts)
{
  for (size_t i = 0; i < sizeof gather_crossovers / sizeof *gather_crossovers; i++)
    if (n_hosts <= gather_crossovers[i].most_hosts) return gather_crossovers[i].bytes;
  return 0;
}

yk_levels_sizes yk_levels_sizes_for(int n_hosts, int n_local, const yk_p2p_options *slots)
{
  yk_levels_sizes sizes = {.n_hosts = n_hosts, .n_local = n_local};
  if (n_hosts < 2 || (n_local > 1 && slots->max_bytes == 0)) return sizes;
  sizes.gather_bytes = gather_bytes_of(n_hosts);
  if (n_local == 1) return sizes;
  sizes.gather_bytes = yk_min_i64(sizes.gather_bytes, slots->max_bytes);
  sizes.slice_bytes = slice_bytes_of(slots, n_local);
  return sizes;
}

yk_levels_route yk_levels_route_of(const yk_levels_sizes *sizes, int64_t n_bytes)
{
  if (n_bytes <= 0 || n_bytes % PACKET_BYTES != 0) return YK_LEVELS_NONE;
  if (n_bytes <= sizes->gather_bytes) return YK_LEVELS_GATHER;
  const bool are_slices_whole = n_bytes % (PACKET_BYTES * sizes->n_local) == 0;
  return n_bytes <= sizes->slice_bytes && are_slices_whole ? YK_LEVELS_SLICES : YK_LEVELS_NONE;
}

int64_t yk_levels_device_bytes(int n_ranks, bool may_span_hosts, int64_t max_rows, int64_t row_bytes)
{
  int64_t most = 0;
  for (int n_local = may_span_hosts ? 1 : n_ranks; n_local <= n_ranks; n_local++) {
    if (n_ranks % n_local != 0) continue;
    const yk_p2p_options slots = yk_p2p_options_for(n_local, max_rows, row_bytes, 0);
    const yk_levels_sizes sizes = yk_levels_sizes_for(n_ranks / n_local, n_local, &slots);
    most = yk_max_i64(most, yk_p2p_layout_of(&slots, n_local).n_bytes + sizes.n_hosts * sizes.gather_bytes);
  }
  return most;
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

yk_status yk_levels_all_reduce(const yk_levels *l, void *data, int64_t count, yk_dtype dtype, yk_err *err)
{
  const int64_t n = count / l->sizes.n_local, slice_bytes = n * (int64_t)yk_dtype_bytes(dtype);
  void *own = (char *)data + l->local->rank * slice_bytes;
  YK_TRY(l->local->ops->reduce_scatter(l->local, data, count, dtype, err));
  YK_TRY(l->between->ops->all_reduce(l->between, own, n, dtype, err));
  return l->local->ops->all_gather(l->local, own, slice_bytes, data, err);
}

yk_status yk_levels_all_reduce_i32(const yk_levels *l, int32_t *data, int64_t count, yk_reduction reduction,
                                   yk_err *err)
{
  if (l->local) YK_TRY(l->local->ops->all_reduce_i32(l->local, data, count, reduction, err));
  return l->between->ops->all_reduce_i32(l->between, data, count, reduction, err);
}

/* The sums of all hosts, as the partial results of `add`. */
static yk_status gather_sums(const yk_levels *l, void *rows, int64_t count, yk_dtype dtype, yk_add_norm_args *add,
                             yk_err *err)
{
  const int64_t n_bytes = count * (int64_t)yk_dtype_bytes(dtype);
  if (l->local) YK_TRY(l->local->ops->all_reduce(l->local, rows, count, dtype, err));
  YK_TRY(l->between->ops->all_gather(l->between, rows, n_bytes, l->gathered, err));
  add->n_partials = l->sizes.n_hosts;
  for (int host = 0; host < l->sizes.n_hosts; host++) add->partials[host] = (char *)l->gathered + host * n_bytes;
  return YK_OK;
}

yk_status yk_levels_all_reduce_add_norm(const yk_levels *l, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  yk_device *dev = l->between->dev;
  const int64_t count = (int64_t)args->n_rows * args->hidden;
  void *rows = args->partial.rows;
  yk_add_norm_args add = {.y = args->y,
                          .residual = args->residual,
                          .partials = {rows},
                          .n_partials = 1,
                          .result_w = args->result_w,
                          .w = args->w,
                          .n_rows = args->n_rows,
                          .hidden = args->hidden,
                          .alpha = args->alpha,
                          .gain = args->gain,
                          .eps = args->eps};
  YK_TRY(dev->ops->partial_complete(dev, &args->partial, err));
  if (yk_levels_route_of(&l->sizes, count * (int64_t)yk_dtype_bytes(dev->dtype)) == YK_LEVELS_GATHER)
    YK_TRY(gather_sums(l, rows, count, dev->dtype, &add, err));
  else
    YK_TRY(yk_levels_all_reduce(l, rows, count, dev->dtype, err));
  return dev->ops->add_norm(dev, &add, err);
}
