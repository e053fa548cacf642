#include "parallel/p2p/p2p_sizes.h"

#include "base/checked.h"

/* Crossover to NCCL: an all-reduce of rows that needs more launches than this uses NCCL. */
enum { MOST_LAUNCHES = 4 };

enum { PACKET_BYTES = 16, MIN_ARRAY_ROW_BYTES = 2048, MAX_ARRAY_ROW_BYTES = 8192 };

/* Largest launch: up to this size NCCL is slower (bench/log). Slots take about 10 times as much memory on each device,
 * more if rows are longer than 8 KiB. */
static const int64_t max_launch_bytes = INT64_C(8) << 20;

int64_t yk_p2p_one_shot_default(int n_ranks)
{
  return n_ranks <= 2 ? 2048 * 1024 : 512 * 1024;
}

/* 2 GPUs: short rows use two-shot from 1 MiB on (bench/log). Other numbers of GPUs: 0, as for rows of any length. */
static int64_t short_rows_one_shot_default(int n_ranks)
{
  return n_ranks == 2 ? 1024 * 1024 - 1 : 0;
}

yk_p2p_options yk_p2p_options_for(int n_ranks, int64_t max_rows, int64_t row_bytes, double step_limit_s)
{
  const double longest_wait_ms = INT32_MAX;
  bool goes = n_ranks > 1 && n_ranks <= YK_P2P_MAX_RANKS && row_bytes > 0 && row_bytes % PACKET_BYTES == 0 &&
              row_bytes <= YK_P2P_MAX_ROW_BYTES;
  yk_p2p_options o = {.max_row_bytes = yk_max_i64(row_bytes, MAX_ARRAY_ROW_BYTES),
                      .one_shot_bytes = yk_p2p_one_shot_default(n_ranks),
                      .short_rows_one_shot_bytes = short_rows_one_shot_default(n_ranks)};
  if (!goes) return o;
  o.max_bytes = max_rows > max_launch_bytes / row_bytes ? max_launch_bytes
                                                        : yk_max_i64(max_rows * row_bytes, MAX_ARRAY_ROW_BYTES);
  double wait_ms = step_limit_s * 750;
  o.timeout_ms = (int32_t)(wait_ms > longest_wait_ms ? longest_wait_ms : wait_ms);
  if (step_limit_s > 0 && o.timeout_ms == 0) o.timeout_ms = 1;
  return o;
}

static yk_p2p_route by_size(const yk_p2p_options *options, int64_t n_bytes, int64_t one_shot_bytes)
{
  if (n_bytes > options->max_bytes) return YK_P2P_NONE;
  return n_bytes <= one_shot_bytes ? YK_P2P_ONE_SHOT : YK_P2P_TWO_SHOT;
}

/* The smaller crossover: the crossover of short rows, if there is one. */
static int64_t least_one_shot_bytes(const yk_p2p_options *options)
{
  int64_t of_short = options->short_rows_one_shot_bytes;
  return of_short > 0 ? yk_min_i64(of_short, options->one_shot_bytes) : options->one_shot_bytes;
}

yk_p2p_route yk_p2p_route_of_rows(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes)
{
  if (row_bytes <= 0 || row_bytes % PACKET_BYTES != 0 || row_bytes > options->max_row_bytes) return YK_P2P_NONE;
  return by_size(options, n_rows * row_bytes,
                 row_bytes <= YK_P2P_SHORT_ROW_BYTES ? least_one_shot_bytes(options) : options->one_shot_bytes);
}

int64_t yk_p2p_rows_at_once(const yk_p2p_options *options, int64_t n_rows, int64_t row_bytes)
{
  if (n_rows <= 0 || yk_p2p_route_of_rows(options, 1, row_bytes) == YK_P2P_NONE) return 0;
  int64_t n_launches = yk_ceil_div_i64(n_rows, options->max_bytes / row_bytes);
  return n_launches <= MOST_LAUNCHES ? yk_ceil_div_i64(n_rows, n_launches) : 0;
}

/* The rows of an array are only a division of work: long enough that every thread block gets one, in whole warps of
 * packets, within 2 KiB to 8 KiB. */
yk_p2p_route yk_p2p_route_of_array(const yk_p2p_options *options, int64_t n_bytes, int64_t *row_bytes)
{
  const int64_t warp_bytes = 32 * PACKET_BYTES;
  int64_t even = yk_ceil_div_i64(n_bytes / YK_P2P_BLOCKS, warp_bytes) * warp_bytes;
  *row_bytes = yk_min_i64(yk_max_i64(even, MIN_ARRAY_ROW_BYTES), MAX_ARRAY_ROW_BYTES);
  if (n_bytes % PACKET_BYTES != 0 || *row_bytes > options->max_row_bytes) return YK_P2P_NONE;
  return by_size(options, n_bytes, options->one_shot_bytes);
}

bool yk_p2p_takes_slices(const yk_p2p_options *options, int n_ranks, int64_t n_bytes)
{
  return n_bytes > 0 && n_bytes % (PACKET_BYTES * n_ranks) == 0 && n_bytes <= options->max_bytes &&
         least_one_shot_bytes(options) < options->max_bytes;
}

yk_status yk_p2p_tree_check(int n_ranks, bool has_slots, yk_err *err)
{
  if (has_slots || n_ranks <= 2) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "all-reduce in a tree: expected 1 or 2 ranks, or GPUs of one host with access to each other's "
                    "memory, found %d ranks",
                    n_ranks);
}

/* Packets that one thread block needs for a source rank. Rows are whole, so with more rows than thread blocks a thread
 * block may hold up to twice the even part. */
static int64_t block_packets(int64_t max_bytes, int64_t max_row_bytes)
{
  int64_t most_bytes = yk_ceil_div_i64(2 * max_bytes, YK_P2P_BLOCKS);
  return yk_ceil_div_i64(yk_max_i64(most_bytes, max_row_bytes), PACKET_BYTES);
}

yk_p2p_layout yk_p2p_layout_of(const yk_p2p_options *options, int n_ranks)
{
  yk_p2p_layout layout = {0};
  if (options->max_bytes <= 0) return layout;
  int64_t whole_bytes = yk_min_i64(options->one_shot_bytes, options->max_bytes);
  layout.one_shot_packets = block_packets(whole_bytes, options->max_row_bytes);
  if (least_one_shot_bytes(options) < options->max_bytes)
    layout.two_shot_packets = block_packets(yk_ceil_div_i64(options->max_bytes, n_ranks), options->max_row_bytes);
  layout.n_slot_packets =
      (int64_t)YK_P2P_BLOCKS * YK_P2P_SETS * n_ranks * (layout.one_shot_packets + 2 * layout.two_shot_packets);
  layout.n_bytes = layout.n_slot_packets * PACKET_BYTES + YK_P2P_STATE_BYTES + YK_P2P_FLAG_BYTES;
  return layout;
}
