#include "loader/integers/group_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { MIN_GROUP = 16, SCALE_BITS = 40 /* of a scale and its zero point on a device */ };

/* The inputs of one group in a share: n inputs after the first `skip`, stored from position `place` on. */
typedef struct take {
  int64_t skip, n, place;
} take;

static int64_t n_groups_of(const yk_weight_view *weight)
{
  return weight->k / weight->group;
}

static int64_t group_of(const yk_weight_view *weight, int64_t input)
{
  int32_t group; /* data in files may be unaligned */
  if (!weight->g_idx) return input / weight->group;
  memcpy(&group, (const char *)weight->g_idx + input * (int64_t)sizeof group, sizeof group);
  return group;
}

/* The inputs that a share may contain: any input if the share is of sorted inputs. */
static yk_group_share inputs_of(const yk_weight_view *weight, const yk_group_share *share)
{
  return share->of_sorted ? (yk_group_share){.end = weight->k} : *share;
}

static void count_inputs(const yk_weight_view *weight, const yk_group_share *inputs, take *takes)
{
  int64_t n = inputs->end - inputs->begin, n_groups = n_groups_of(weight);
  if (weight->g_idx)
    for (int64_t input = inputs->begin; input < inputs->end; input++) takes[group_of(weight, input)].n++;
  else
    for (int64_t group = 0; group < n_groups; group++) takes[group].n = n / n_groups + (group < n % n_groups);
}

/* *out: [n_groups], malloc'ed; the caller frees it. */
static yk_status take_groups(const yk_weight_view *weight, const yk_group_share *share, take **out, yk_err *err)
{
  int64_t n_groups = n_groups_of(weight), first = 0;
  const yk_group_share inputs = inputs_of(weight, share);
  take *takes = calloc((size_t)n_groups, sizeof *takes);
  if (!takes) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld groups", (long long)n_groups);
  count_inputs(weight, &inputs, takes);
  for (int64_t group = 0; share->of_sorted && group < n_groups; group++) {
    int64_t end = first + takes[group].n;
    int64_t begin_taken = yk_min_i64(yk_max_i64(share->begin, first), end);
    int64_t end_taken = yk_max_i64(yk_min_i64(share->end, end), begin_taken);
    takes[group] = (take){.skip = begin_taken - first, .n = end_taken - begin_taken};
    first = end;
  }
  *out = takes;
  return YK_OK;
}

/* Whether all groups of the weight have equally many inputs. */
static yk_status find_evenness(const yk_weight_view *weight, bool *is_even, yk_err *err)
{
  take *takes;
  const yk_group_share all = {.end = weight->k};
  YK_TRY(take_groups(weight, &all, &takes, err));
  *is_even = true;
  for (int64_t group = 0; group < n_groups_of(weight); group++) *is_even &= takes[group].n == weight->group;
  free(takes);
  return YK_OK;
}

yk_status yk_group_order_measure(const yk_weight_view *weight, const yk_group_share *share, yk_group_places *out,
                                 yk_err *err)
{
  take *takes;
  int64_t least_bits = INT64_MAX;
  const int bits_of_element = yk_weight_traits_of(weight->format)->bits;
  YK_TRY(find_evenness(weight, &out->is_even, err));
  YK_TRY(take_groups(weight, share, &takes, err));
  for (int64_t local = yk_min_i64(MIN_GROUP, weight->group); local <= weight->group; local *= 2) {
    int64_t n = 0;
    for (int64_t group = 0; group < n_groups_of(weight); group++) n += yk_round_up_i64(takes[group].n, local);
    int64_t bits = n * bits_of_element + n / local * SCALE_BITS;
    if (bits > least_bits) continue;
    least_bits = bits;
    out->n = n;
    out->group = local;
  }
  free(takes);
  return YK_OK;
}

yk_status yk_group_order_fill(const yk_weight_view *weight, const yk_group_share *share, const yk_group_places *places,
                              int32_t *inputs, int32_t *groups, yk_err *err)
{
  take *takes;
  int64_t place = 0;
  const yk_group_share all = inputs_of(weight, share);
  YK_TRY(take_groups(weight, share, &takes, err));
  for (int64_t group = 0; group < n_groups_of(weight); group++) {
    takes[group].place = place;
    for (int64_t end = place + takes[group].n; place < end; place += places->group)
      if (groups) groups[place / places->group] = (int32_t)group;
  }
  memset(inputs, 0xFF, (size_t)places->n * sizeof *inputs); /* -1 */
  for (int64_t input = all.begin; input < all.end; input++) {
    take *taken = &takes[group_of(weight, input)];
    if (taken->skip-- > 0) continue;
    if (taken->n-- > 0) inputs[taken->place++] = (int32_t)input;
  }
  free(takes);
  return YK_OK;
}
