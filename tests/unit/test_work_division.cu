/* Division of work among thread blocks in kernels: everything is done once, by the designated blocks. The GPU's
 * arithmetic, run by the host. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "parallel/p2p/allreduce_p2p_launch.cuh" /* before cmocka.h, which makes fail a macro */

extern "C" { /* cmocka.h is C alone */
#include <cmocka.h>
}

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/attention/prefill_splits.cuh"
#include "kernels/cuda/attention/split_kv.cuh"
#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/dense/plan.h"
#include "kernels/cuda/gemm/dense/sliced.cuh"
#include "kernels/cuda/gemm/dense/small_batch.cuh"
#include "kernels/cuda/gemm/dense/wgmma.cuh"
#include "kernels/cuda/gemm/dense/wgmma_cluster.cuh"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/gemm/schedule.cuh"
#include "kernels/cuda/latent/work_list.cuh"
#include "kernels/cuda/w4a8/wgmma.cuh"

namespace {

using generator = std::mt19937;

int between(generator &random, int low, int high)
{
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

/* ---- Division on the host ---------------------------------------------------------------------------------------- */

void quotients_are_exact(void **)
{
  generator random(1);
  const int64_t largest = int64_t{1} << 31;
  for (int i = 0; i < 20000; i++) {
    const int64_t by = i < 300 ? i + 1 : 1 + static_cast<int64_t>(random() >> between(random, 1, 31));
    const yk_cuda::divider divider = yk_cuda::divider::of(by);
    const int64_t whole = static_cast<int64_t>(random()) % (largest / by + 1) * by;
    for (int64_t n : {int64_t{0}, by - 1, by, whole - 1, whole, whole + by - 1, largest - 1})
      if (n >= 0 && n < largest) assert_int_equal(divider.quotient(static_cast<int>(n)), n / by);
  }
}

/* ---- Pages of flash decoding (split-KV) -------------------------------------------------------------------------- */

/* pages: those of every sequence, each with n_head_groups work items of that number of pages. */
struct step {
  std::vector<int32_t> first; /* page of every work item, and the end of the page list */
  yk_attn::page_list list;

  step(const std::vector<int32_t> &pages, int n_head_groups) : first(1, 0)
  {
    for (int32_t n : pages)
      for (int i = 0; i < n_head_groups; i++) first.push_back(first.back() + n);
    list = {first.back(), static_cast<int32_t>(pages.size()), *std::max_element(pages.begin(), pages.end())};
  }
  int32_t n_items() const
  {
    return static_cast<int32_t>(first.size()) - 1;
  }
  yk_attn::block_pages pages_of(int n_blocks, int block) const
  {
    return yk_attn::divide_pages(list, n_items(), n_blocks, block,
                                 [&](int32_t item) { return first[static_cast<size_t>(std::min(item, n_items()))]; });
  }
};

/* The warps of a thread block take consecutive pages, all pages of the block, in counts that differ by at most one. */
void expect_divided(const yk_attn::block_pages &block, int n_warps)
{
  const auto warps = yk_attn::warp_pages::of(block, n_warps);
  assert_int_equal(warps.first(0), block.begin);
  assert_int_equal(warps.first(n_warps), block.end);
  for (int warp = 0; warp < n_warps; warp++) {
    const int32_t n = warps.first(warp + 1) - warps.first(warp), fewest = (block.end - block.begin) / n_warps;
    assert_in_range(n, fewest, fewest + 1);
  }
}

/* Every page is read by one thread block, none reads many more than the mean, and all that read pages of a work item
 * agree on the set of these thread blocks. */
void expect_divided(const step &s, int n_blocks)
{
  const int32_t mean = (s.list.n_pages + n_blocks - 1) / n_blocks;
  const int32_t most = std::max<int32_t>(mean, yk_attn::MIN_PAGES_PER_BLOCK) + yk_attn::WORK_ITEM_COST_PAGES;
  std::vector<int> owners(static_cast<size_t>(s.list.n_pages), -1);
  for (int block = 0; block < n_blocks; block++) {
    const yk_attn::block_pages mine = s.pages_of(n_blocks, block);
    assert_true(mine.end - mine.begin <= most);
    for (int n_warps : {1, 4, 6, 8, 12}) expect_divided(mine, n_warps);
    for (int32_t page = mine.begin; page < mine.end; page++) {
      assert_int_equal(owners[static_cast<size_t>(page)], -1);
      owners[static_cast<size_t>(page)] = block;
    }
  }
  for (int32_t item = 0; item < s.n_items(); item++) {
    const int32_t begin = s.first[static_cast<size_t>(item)], end = s.first[static_cast<size_t>(item) + 1];
    for (int32_t page = begin; page < end; page++) {
      const int owner = owners[static_cast<size_t>(page)], first = owners[static_cast<size_t>(begin)];
      assert_true(owner >= 0);
      const yk_attn::block_pages mine = s.pages_of(n_blocks, owner);
      if (mine.begin <= begin && end <= mine.end) continue; /* all its own */
      assert_int_equal(mine.first_block(owner, begin), first);
      assert_int_equal(mine.n_blocks(begin, end), owners[static_cast<size_t>(end) - 1] - first + 1);
    }
  }
}

void pages_are_divided_once(void **)
{
  generator random(2);
  for (int i = 0; i < 2000; i++) {
    std::vector<int32_t> pages(static_cast<size_t>(between(random, 1, i % 10 == 0 ? 300 : 40)));
    const int longest = between(random, 1, i % 3 == 0 ? 600 : 60), shortest = i % 2 ? longest : 1;
    for (int32_t &n : pages) n = between(random, shortest, longest);
    expect_divided(step(pages, between(random, 1, 8)), i % 4 == 0 ? between(random, 1, 200) : 132);
  }
}

void a_step_without_decodes_has_no_pages(void **)
{
  const auto first = [](int32_t) { return 0; };
  for (int block = 0; block < 132; block++) {
    const yk_attn::block_pages mine = yk_attn::divide_pages({0, 0, 0}, 0, 132, block, first);
    assert_int_equal(mine.begin, mine.end);
  }
}

/* ---- Splits of prefill ------------------------------------------------------------------------------------------- */

/* The parts of a work tile's key tiles are consecutive, differ by at most one and are long enough. */
void expect_parts(const yk_attn::key_tile_range &all, int32_t n_splits)
{
  const int32_t n = all.end - all.begin;
  int32_t at = all.begin;
  for (int32_t split = 0; split < n_splits; split++) {
    const yk_attn::key_tile_range part = all.part(split, n_splits);
    assert_int_equal(part.begin, at);
    assert_in_range(part.end - part.begin, n / n_splits, (n + n_splits - 1) / n_splits);
    assert_true(n_splits == 1 || part.end - part.begin >= yk_attn::MIN_SPLIT_KEY_TILES);
    at = part.end;
  }
  assert_int_equal(at, all.end);
}

/* Partial results have space, a thread block has at most an even share of a split work tile, and one split more would
 * exceed the thread blocks or make splits too short. */
void prefill_splits_fit_the_thread_blocks(void **)
{
  generator random(8);
  for (int i = 0; i < 3000; i++) {
    std::vector<yk_attn::sequence_tiles> sequences(static_cast<size_t>(between(random, 1, i % 4 ? 6 : 60)));
    const int32_t n_blocks = i % 4 == 0 ? between(random, 1, 200) : 132, longest = i % 3 ? 300 : 30;
    int32_t n_key_tiles = 0, n_results = 0;
    for (auto &tiles : sequences) {
      tiles.mean = between(random, 1, longest);
      tiles.n = between(random, 0, i % 2 ? 10 : 100), tiles.fewest = between(random, 1, tiles.mean);
      n_key_tiles += tiles.n_key_tiles();
    }
    for (const auto &tiles : sequences) {
      const int32_t n_splits = tiles.n_splits(n_key_tiles, n_blocks), begin = between(random, 0, 50);
      assert_true(n_splits >= 1);
      if (n_splits > 1) n_results += tiles.n * n_splits;
      expect_parts({begin, begin + between(random, tiles.fewest, 2 * tiles.mean)}, n_splits);
      if (tiles.n == 0 || tiles.fewest < yk_attn::MIN_SPLIT_KEY_TILES * (n_splits + 1)) continue;
      assert_true(static_cast<int64_t>(tiles.mean) * n_blocks < static_cast<int64_t>(n_splits + 1) * n_key_tiles);
    }
    assert_true(n_results <= n_blocks);
  }
}

/* 132 multiprocessors, 8 KV heads of 4 query heads, 32,000 tokens. */
void few_rows_use_all_thread_blocks(void **)
{
  const int32_t n_work_tiles[] = {8, 16, 32, 64, 128, 256}, n_splits[] = {16, 8, 4, 2, 1, 1};
  for (int i = 0; i < 6; i++) {
    const yk_attn::sequence_tiles tiles = {n_work_tiles[i], 250, 249};
    assert_int_equal(tiles.n_splits(tiles.n_key_tiles(), 132), n_splits[i]);
  }
}

/* ---- Tiles of latent attention ----------------------------------------------------------------------------------- */

/* Every tile belongs to one thread block, the thread blocks of an item are neighbours and agree on their number, none
 * has a third item that others share, and none takes much more than an even share. */
void check_latent_tiles(const std::vector<int32_t> &first_tile, int32_t longest, int32_t n_blocks)
{
  const int32_t n_items = static_cast<int32_t>(first_tile.size()) - 1, n_tiles = first_tile.back();
  const int32_t even = std::max((n_tiles + n_blocks - 1) / n_blocks, yk_latent::MIN_TILES_PER_BLOCK);
  std::vector<int32_t> of_tile(static_cast<size_t>(n_tiles), -1);
  std::vector<yk_latent::block_tiles> blocks;
  for (int32_t block = 0; block < n_blocks; block++) {
    const auto mine = yk_latent::divide_tiles(first_tile.data(), n_items, longest, n_blocks, block);
    blocks.push_back(mine);
    assert_true(mine.begin <= mine.end && mine.end - mine.begin <= even + yk_latent::ITEM_COST_TILES);
    for (int32_t tile = mine.begin; tile < mine.end; tile++) {
      assert_int_equal(of_tile[static_cast<size_t>(tile)], -1);
      of_tile[static_cast<size_t>(tile)] = block;
    }
  }
  for (int32_t item = 0; item < n_items; item++) {
    const int32_t begin = first_tile[static_cast<size_t>(item)], end = first_tile[static_cast<size_t>(item) + 1];
    const int32_t first = of_tile[static_cast<size_t>(begin)], last = of_tile[static_cast<size_t>(end) - 1];
    for (int32_t tile = begin; tile + 1 < end; tile++) {
      const int32_t own = of_tile[static_cast<size_t>(tile)], next = of_tile[static_cast<size_t>(tile) + 1];
      assert_true(own >= 0 && (next == own || next == own + 1));
    }
    assert_int_equal(blocks[static_cast<size_t>(first)].first_block(first, begin), first);
    assert_int_equal(blocks[static_cast<size_t>(first)].n_blocks(begin, end), last - first + 1);
    for (const yk_latent::block_tiles &any : {blocks.front(), blocks[blocks.size() / 2], blocks.back()}) {
      assert_int_equal(any.n_blocks_of(begin, end), last - first + 1);
      if (last > first) assert_int_equal(any.first_block_of(item, begin), first);
    }
  }
}

void latent_tiles_are_divided_once(void **)
{
  generator random(7);
  for (int i = 0; i < 20000; i++) {
    std::vector<int32_t> first_tile(1, 0);
    int32_t longest = 0;
    const int n_items = between(random, 1, i % 3 ? 20 : 256), most = i % 2 ? between(random, 1, 200) : 64;
    for (int item = 0; item < n_items; item++) {
      const int32_t n = i % 2 ? between(random, 1, most) : most;
      first_tile.push_back(first_tile.back() + n);
      longest = std::max(longest, n);
    }
    check_latent_tiles(first_tile, longest, between(random, 1, 132));
  }
  const int32_t none = 0;
  const auto mine = yk_latent::divide_tiles(&none, 0, 0, 132, 5);
  assert_int_equal(mine.begin, mine.end);
}

/* ---- Tiles of a GEMM --------------------------------------------------------------------------------------------- */

/* Every K tile of every output tile is in one work tile of one cluster; output tiles fill the rectangle. */
void expect_divided(const yk_gemm::wgmma_params &p)
{
  const int n_tiles = p.tiles_m * p.tiles_n;
  std::vector<int> times(static_cast<size_t>(n_tiles) * p.k_tiles, 0), places(static_cast<size_t>(n_tiles), 0);
  for (int cluster = 0; cluster < p.clusters; cluster++) {
    yk_gemm::tile_scheduler scheduler(p, cluster);
    for (yk_gemm::work_tile w; scheduler.next(p, w);) {
      assert_in_range(w.tile, 0, n_tiles - 1);
      assert_true(0 <= w.first && w.first < w.last && w.last <= p.k_tiles);
      for (int k = w.first; k < w.last; k++) times[static_cast<size_t>(w.tile) * p.k_tiles + k]++;
    }
  }
  for (int n : times) assert_int_equal(n, 1);
  for (int tile = 0; tile < n_tiles; tile++) {
    int row, token;
    yk_gemm::tile_coordinates(p, tile, row, token);
    assert_in_range(row, 0, p.tiles_m - 1);
    assert_in_range(token, 0, p.tiles_n - 1);
    assert_int_equal(places[static_cast<size_t>(row) * p.tiles_n + token]++, 0);
  }
}

void divide(int k_tiles, int row_tiles, int token_tiles, int split_tiles, int k_ranges, int clusters)
{
  yk_gemm::wgmma_params p = {};
  yk_gemm::schedule_tiles(p, k_tiles, row_tiles, token_tiles, split_tiles, k_ranges, clusters);
  expect_divided(p);
}

/* The schedules that plans choose from: whole tiles, split-K, stream-K. */
void tiles_are_dealt_out_once(void **)
{
  generator random(3);
  for (int i = 0; i < 300; i++) {
    const int k_tiles = between(random, 1, 100), rows = between(random, 1, 40), tokens = between(random, 1, 20);
    const int tiles = rows * tokens, clusters = i % 2 ? 132 : between(random, 1, 132);
    if (tiles >= clusters) {
      divide(k_tiles, rows, tokens, 0, 0, clusters);
      if (tiles % clusters) divide(k_tiles, rows, tokens, tiles % clusters + clusters, clusters, clusters);
      continue;
    }
    for (int cuts = 1; tiles * cuts <= std::min(clusters, tiles * k_tiles); cuts++)
      divide(k_tiles, rows, tokens, tiles, tiles * cuts, tiles * cuts);
    if (tiles * k_tiles >= clusters) divide(k_tiles, rows, tokens, tiles, clusters, clusters);
  }
}

/* If peers are a cluster, each group of 8 tokens is finished by one of them, and the data that the others send has
 * separate slots, where the finisher reads it. */
void a_cluster_has_a_place_for_each_partial_sum(void **)
{
  using namespace yk_gemm;
  for (int tokens : {16, 32, 64, 128}) {
    for (int count = 2; count <= YK_GEMM_MOST_PEERS; count++) {
      const int n8s = tokens / 8, groups = peer_groups_of(tokens, count);
      wgmma_params p = {};
      schedule_tiles(p, 2 * count + 1, 1, 1, 1, count, count);
      std::vector<int> finished(n8s, 0);
      for (int owner = 0; owner < count; owner++) {
        const work_tile w = {0, tile_scheduler::range_start(p, owner), tile_scheduler::range_start(p, owner + 1)};
        const tile_peers peers = peers_of(p, owner, w, n8s);
        std::vector<int> received((count - 1) * groups, 0);
        assert_int_equal(peers.count, count);
        assert_int_equal(peers.index, owner);
        for (int n8 = peers.own.first; n8 < peers.own.end; n8++) finished[n8]++;
        for (int sender = 0; sender < count; sender++) {
          group_owner to;
          for (int n8 = 0; n8 < n8s; n8++) {
            to.next(n8, n8s, count);
            assert_int_equal(to.owner == owner, peers.own.holds(n8));
            if (to.owner != owner || sender == owner) continue;
            const int at = first_received_group(sender, owner, groups) + to.number;
            assert_int_equal(to.number, n8 - peers.own.first);
            assert_in_range(at, 0, (count - 1) * groups - 1);
            assert_int_equal(received[at]++, 0);
          }
        }
      }
      for (int times : finished) assert_int_equal(times, 1);
    }
  }
}

/* The kernel of a plan is compiled for the groups of scales, and all its clusters are resident at once. */
void every_plan_has_a_kernel(void **)
{
  using namespace yk_gemm;
  const yk_gemm_gpu gpu = {"NVIDIA H200", 132, YK_GEMM_WGMMA, nullptr, {0, 0, 66, 39, 30, 22, 17, 15, 15}};
  for (int64_t group : {16, 32, 64, 96, 128, 256}) {
    for (const kernel_types &types : DENSE_KERNEL_TYPES) {
      if (group % (types.f32_output ? 128 : YK_GEMM_GROUP_UNIT(types.encoding)) != 0) continue;
      const yk_gemm_desc desc = {3840, 4096, group, types.dtype, YK_NO_ACTIVATION, types.encoding, types.f32_output};
      for (int64_t m : {1, 9, 17, 25, 33, 100, 1000, 8192}) {
        assert_true(plans_of(gpu, desc, m).size() > 0);
        for (yk_gemm_plan plan : plans_of(gpu, desc, m)) {
          const bool is_small = plan.kernel == PLAN_SMALL_BATCH;
          if (plan.kernel == PLAN_WGMMA_CLUSTER) {
            const wgmma_shape &s = WGMMA_SHAPES[plan.tile];
            const int64_t tiles = ceil_div(4096, s.m()) * ceil_div(m, s.n);
            assert_in_range(plan.splits, 2, YK_GEMM_MOST_PEERS);
            assert_true(tiles <= gpu.clusters[plan.splits]);
          }
          assert_non_null(with_types(types, [&](auto t) {
            return (is_small ? small_batch_kernels<t.ENCODING, t.DTYPE, t.RESULT>(fusion::NONE, plan.tile)
                             : wgmma_kernels<t.ENCODING, t.DTYPE, t.RESULT>(plan.tile))
                .get(desc);
          }));
        }
      }
    }
  }
}

/* So it is where results do not depend on the number of tokens. */
void every_plan_of_slices_has_a_kernel(void **)
{
  using namespace yk_gemm;
  const yk_gemm_gpu gpu = {"NVIDIA H200", 132, YK_GEMM_WGMMA, nullptr, {0, 0, 66, 39, 30, 22, 17, 15, 15}};
  for (const int slices : {1, 2, 4, 8}) {
    for (const int64_t n : {192, 4096, 24576}) {
      for (int i = 0; i < 12; i++) {
        const bool is_f16 = i % 2, has_f32_output = i / 6;
        yk_gemm_desc desc = {4096,          n, 32 << i % 3, is_f16 ? YK_F16 : YK_BF16, YK_NO_ACTIVATION, YK_GEMM_INT4,
                             has_f32_output};
        desc.k_slices = slices;
        yk_gemm_plans plans;
        yk_gemm_plans_choose(&gpu, &desc, 0, &plans);
        for (const yk_gemm_plan &plan : plans.of_bucket) {
          const bool is_chain = plan.kernel == PLAN_WGMMA;
          assert_true(is_chain || plan.kernel == PLAN_SLICED);
          assert_true(!is_chain || (slices == 1 && !has_f32_output && plan.splits == 1));
          const auto kernels = [&](auto t) {
            constexpr yk_dtype DTYPE = decltype(t)::value;
            return (is_chain               ? wgmma_kernels<YK_GEMM_INT4, DTYPE, DTYPE>(plan.tile)
                    : plan.slice_warps > 0 ? sliced_mma_kernels<YK_GEMM_INT4, DTYPE>(plan.tile)
                                           : sliced_kernels<YK_GEMM_INT4, DTYPE>(plan.tile))
                .get(desc);
          };
          assert_non_null(is_f16 ? kernels(std::integral_constant<yk_dtype, YK_F16>())
                                 : kernels(std::integral_constant<yk_dtype, YK_BF16>()));
        }
      }
    }
  }
}

/* Every K tile of every output tile belongs to one cluster, no K range is empty, and the ranges of a tile list each
 * other. */
void expect_divided(const yk_w4a8::tile_split &split, int k_tiles, int tokens)
{
  yk_gemm::wgmma_params p = {};
  yk_gemm::schedule_tiles(p, k_tiles, static_cast<int>(split.tiles_m), static_cast<int>(split.tiles_n),
                          static_cast<int>(split.split_tiles), static_cast<int>(split.k_ranges),
                          static_cast<int>(split.clusters));
  const size_t n_tiles = static_cast<size_t>(split.tiles_m * split.tiles_n);
  std::vector<int> computed(n_tiles), n_parts(n_tiles), n_peers(n_tiles), finished(n_tiles);
  for (int cluster = 0; cluster < split.clusters; cluster++) {
    int n_work = 0;
    yk_gemm::work_tile w;
    const int range = yk_gemm::tile_scheduler::range_of(p, cluster);
    for (yk_gemm::tile_scheduler scheduler(p, cluster); scheduler.next(p, w); n_work++) {
      const size_t tile = static_cast<size_t>(w.tile);
      const yk_gemm::tile_peers peers = yk_gemm::peers_of(p, range, w, tokens / 8);
      assert_true(w.last > w.first);
      computed[tile] += w.last - w.first;
      n_parts[tile]++;
      n_peers[tile] = peers.count;
      finished[tile] += peers.own.end - peers.own.first;
    }
    assert_true(n_work > 0);
  }
  for (size_t tile = 0; tile < n_tiles; tile++) {
    assert_int_equal(computed[tile], k_tiles);
    assert_int_equal(n_parts[tile], n_peers[tile]);
    assert_int_equal(finished[tile], tokens / 8);
  }
}

void every_w4a8_plan_divides_the_work(void **)
{
  generator random(6);
  const yk_gemm_gpu gpu = {"NVIDIA H200", 132, YK_GEMM_WGMMA, nullptr, {0, 0, 66, 39, 30, 22, 17, 15, 15}};
  for (int i = 0; i < 400; i++) {
    const yk_gemm_desc desc = {
        32 * between(random, 1, 400), 8 * between(random, 1, 3200), 128, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT4};
    const int64_t m = between(random, 64, i % 4 ? 700 : 9000);
    const yk_w4a8::gemm_plan best = yk_w4a8::best_plan(gpu, desc, m);
    assert_true(best.splits == 1 || yk_w4a8::can_split(gpu, desc, m, best));
    for (int tile = 0; tile < yk_w4a8::N_TILES; tile++)
      for (int splits = 0; splits <= 4; splits++) {
        const yk_w4a8::gemm_plan plan = {tile, splits};
        if (splits != 1 && !yk_w4a8::can_split(gpu, desc, m, plan)) continue;
        const yk_w4a8::tile_split split = yk_w4a8::split_of(gpu, desc, m, plan);
        assert_true(split.clusters <= split.fit);
        expect_divided(split, static_cast<int>((desc.k + 127) / 128), yk_w4a8::TILES[tile].n);
      }
  }
}

/* Each field of a GEMM's description is checked, and the error names its range and the value found. */
void a_gemm_refuses_sizes_out_of_range(void **)
{
  const struct {
    yk_gemm_desc desc;
    const char *message;
  } cases[] = {
      {{64, 16, 32, YK_F16, YK_GATED_SILU, YK_GEMM_INT4}, nullptr},
      {{1 << 24, 1 << 24, 1 << 25, YK_BF16, YK_NO_ACTIVATION, YK_GEMM_FP8}, nullptr},
      {{0, 16, 32, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT4}, "k must be a multiple of 32 from 32 to 16777216, found 0"},
      {{33, 16, 32, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT4},
       "k must be a multiple of 32 from 32 to 16777216, found 33"},
      {{1 << 25, 16, 32, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT4},
       "k must be a multiple of 32 from 32 to 16777216, found 33554432"},
      {{64, 12, 32, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT4}, "n must be a multiple of 8 from 8 to 16777216, found 12"},
      {{64, 8, 32, YK_F16, YK_GATED_SILU, YK_GEMM_INT4}, "n must be a multiple of 16 from 16 to 16777216, found 8"},
      {{64, 1 << 25, 32, YK_F16, YK_GATED_SILU, YK_GEMM_INT4},
       "n must be a multiple of 16 from 16 to 16777216, found 33554432"},
      {{64, 16, 48, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT8},
       "group must be a multiple of 32 or cover k = 64, found 48"},
      {{64, 16, 48, YK_F16, YK_NO_ACTIVATION, YK_GEMM_FP4}, nullptr},
      {{64, 16, 24, YK_F16, YK_NO_ACTIVATION, YK_GEMM_FP4}, "group must be a multiple of 16 or cover k = 64, found 24"},
      {{64, 16, 32, YK_F32, YK_NO_ACTIVATION, YK_GEMM_INT4}, "activations must be float16 or bfloat16, found float32"},
      {{64, 16, 64, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT8, true}, nullptr},
      {{256, 16, 128, YK_F16, YK_NO_ACTIVATION, YK_GEMM_FP8, true}, "float32 results need 8-bit integers"},
      {{256, 16, 64, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT8, true}, "found 8 bits, groups of 64"},
      {{256, 16, 128, YK_F16, YK_GATED_SILU, YK_GEMM_INT8, true}, "no activation, found"},
  };
  for (const auto &c : cases) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_gemm_desc_check(&c.desc, &err), c.message ? YK_E_INVAL : YK_OK);
    if (c.message) assert_non_null(std::strstr(err.message, c.message));
  }
}

/* A bucket's plan is that of its largest number of tokens, and up to 256 tokens that of each of them. */
void a_bucket_of_rows_has_one_plan(void **)
{
  generator random(4);
  for (int64_t m = 1; m <= 10000; m++) {
    const int bucket = yk_gemm::row_bucket(m);
    assert_in_range(bucket, 0, YK_GEMM_ROW_BUCKETS - 1);
    assert_true(m <= yk_gemm::bucket_rows(bucket));
    assert_true(bucket == 0 || m > yk_gemm::bucket_rows(bucket - 1));
  }
  assert_int_equal(yk_gemm::row_bucket(1 << 24), YK_GEMM_ROW_BUCKETS - 1);
  for (int i = 0; i < 40; i++) {
    const int n = i % 2 ? 132 : between(random, 2, 132);
    const yk_gemm_gpu gpu = {
        "NVIDIA H200", n, YK_GEMM_WGMMA, nullptr, {0, 0, n / 2, n / 3, n / 4, n / 6, n / 7, n / 8, n / 8}};
    const yk_gemm_desc desc = {32 * between(random, 1, 300),
                               16 * between(random, 1, 1500),
                               i % 4 ? 128 : 32 << i / 4 % 2,
                               i % 3 ? YK_F16 : YK_BF16,
                               {i % 5 == 0 ? YK_ACTIVATION_SILU : YK_ACTIVATION_NONE, i % 5 == 0, 0, 0},
                               static_cast<yk_gemm_encoding>(i % 3)};
    yk_gemm_plans plans, halves;
    yk_gemm_plans_choose(&gpu, &desc, 0, &plans);
    yk_gemm_plans_choose(&gpu, &desc, 64, &halves);
    for (int64_t m = 1; m <= 256; m++) {
      const yk_gemm_plan best = yk_gemm::best_plan(yk_gemm::costs_of(gpu, desc.encoding), gpu, desc, m);
      assert_memory_equal(&plans.of_bucket[yk_gemm::row_bucket(m)], &best, sizeof best);
      assert_true(m > yk_gemm::UNROUNDED_TOKENS || best.kernel == yk_gemm::PLAN_SMALL_BATCH);
      const yk_gemm_plan half = yk_gemm::best_half_plan(yk_gemm::costs_of(gpu, desc.encoding), gpu, desc, m);
      assert_memory_equal(&halves.of_bucket[yk_gemm::row_bucket(m)], m <= 64 ? &half : &best, sizeof half);
      assert_true(m > 64 || desc.encoding != YK_GEMM_INT4 ||
                  yk_gemm::tile_name(half).find("most") == std::string::npos);
    }
  }
}

/* ---- Rows of an all-reduce --------------------------------------------------------------------------------------- */

void a_thread_group_holds_a_row(void **)
{
  using namespace yk_p2p_kernels;
  for (int row_packets = 1; row_packets <= YK_P2P_MAX_ROW_BYTES / 16; row_packets++) {
    for (int i = 0; i < 14; i++) {
      const int rows_of_block = (const int[]){1, 2, 3, 4, 8, 20, 1000}[i / 2];
      const bool combines = i % 2;
      const division d = division_of(row_packets, rows_of_block, combines);
      const int threads = group_threads(row_packets, d.packets);
      assert_true(d.packets == 1 || d.packets == 2 || d.packets == MAX_PACKETS); /* the compiled kernels */
      assert_true(d.has_many || (d.packets == 1 && rows_of_block == 1));
      assert_int_equal(threads % 32, 0);
      assert_true(threads * d.packets >= row_packets && (threads - 32) * d.packets < row_packets);
      assert_true(threads <= most_threads(d.packets, d.has_many, combines));
      if (d.packets == MAX_PACKETS) continue; /* the others' groups have one row each */
      assert_true(rows_of_block <= MAX_GROUPS);
      assert_true(threads * rows_of_block <= most_threads(d.packets, d.has_many, combines));
      if (rows_of_block > 1) assert_int_equal(d.packets, division_of(row_packets, rows_of_block, !combines).packets);
    }
  }
}

/* Kernels count rows of x in pieces of 8 values, in 32 bits. The refusal needs no GPU. */
void a_grouped_gemm_refuses_x_that_it_cannot_count(void **)
{
  yk_gemm_gpu gpu = {};
  gpu.path = YK_GEMM_WGMMA;
  const yk_gemm_desc down = {2048, 7168, 128, YK_F16, YK_NO_ACTIVATION};
  yk_grouped_call call = {};
  call.n_matrices = 256;
  call.n_rows = 1 << 23;
  call.max_slots = YK_GROUPED_MAX_SLOTS;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_gemm_grouped_forward(&gpu, &down, &call, nullptr, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "found 8388608 rows of 2048"));
}

/* The list of their tiles is in shared memory. */
void a_grouped_gemm_refuses_more_slots_than_it_can_list(void **)
{
  yk_gemm_gpu gpu = {};
  gpu.path = YK_GEMM_WGMMA;
  gpu.n_multiprocessors = 132;
  const yk_gemm_desc down = {256, 2048, 32, YK_F16, YK_NO_ACTIVATION, YK_GEMM_INT8};
  yk_grouped_call call = {};
  call.n_matrices = 1024;
  call.n_rows = 1;
  call.max_slots = YK_GROUPED_MAX_SLOTS + 1;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_gemm_grouped_forward(&gpu, &down, &call, nullptr, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "at most 1048576 slots, found 1048577"));
}

} // namespace

int main()
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quotients_are_exact),
      cmocka_unit_test(pages_are_divided_once),
      cmocka_unit_test(a_step_without_decodes_has_no_pages),
      cmocka_unit_test(prefill_splits_fit_the_thread_blocks),
      cmocka_unit_test(few_rows_use_all_thread_blocks),
      cmocka_unit_test(latent_tiles_are_divided_once),
      cmocka_unit_test(tiles_are_dealt_out_once),
      cmocka_unit_test(a_cluster_has_a_place_for_each_partial_sum),
      cmocka_unit_test(every_plan_has_a_kernel),
      cmocka_unit_test(every_plan_of_slices_has_a_kernel),
      cmocka_unit_test(every_w4a8_plan_divides_the_work),
      cmocka_unit_test(a_gemm_refuses_sizes_out_of_range),
      cmocka_unit_test(a_bucket_of_rows_has_one_plan),
      cmocka_unit_test(a_thread_group_holds_a_row),
      cmocka_unit_test(a_grouped_gemm_refuses_x_that_it_cannot_count),
      cmocka_unit_test(a_grouped_gemm_refuses_more_slots_than_it_can_list),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
