#include "study/limits.h"

#include <math.h>
#include <string.h>

const char *yk_limit_bound_name(yk_limit_bound bound)
{
  static const char *const names[] = {"memory", "gemm", "link"};
  return names[bound];
}

static double number_at(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) && json_number_value(value) > 0 ? json_number_value(value) : 0;
}

bool yk_machine_rates_read(const json_t *machine, yk_machine_rates *out)
{
  size_t i;
  json_t *row;
  *out = (yk_machine_rates){.memory_bytes_per_s = number_at(machine, "memory_bytes_per_s"),
                            .gemm_flops = number_at(machine, "gemm_flops"),
                            .link_bytes_per_s = number_at(machine, "link_bytes_per_s")};
  const char *device = json_string_value(json_object_get(machine, "device"));
  out->is_shared = device && strcmp(device, "cpu") == 0;
  json_array_foreach(json_object_get(machine, "all_reduce"), i, row)
  {
    double ranks = number_at(row, "ranks"), bytes = number_at(row, "bytes"), us = number_at(row, "us");
    if (ranks < 2 || bytes <= 0 || us <= 0 || out->n_all_reduces == YK_MACHINE_MAX_ALL_REDUCES) continue;
    out->all_reduces[out->n_all_reduces].ranks = (int)ranks;
    out->all_reduces[out->n_all_reduces].bytes = bytes;
    out->all_reduces[out->n_all_reduces++].us = us;
  }
  return out->memory_bytes_per_s > 0 && out->gemm_flops > 0;
}

double yk_machine_all_reduce_s(const yk_machine_rates *machine, int ranks, double n_bytes)
{
  double low_bytes = 0, low_us = 0, high_bytes = INFINITY, high_us = 0;
  if (ranks < 2) return 0;
  for (size_t i = 0; i < machine->n_all_reduces; i++) {
    double bytes = machine->all_reduces[i].bytes, us = machine->all_reduces[i].us;
    if (machine->all_reduces[i].ranks != ranks) continue;
    if (bytes <= n_bytes && bytes > low_bytes) {
      low_bytes = bytes;
      low_us = us;
    }
    if (bytes >= n_bytes && bytes < high_bytes) {
      high_bytes = bytes;
      high_us = us;
    }
  }
  if (low_bytes > 0 && high_us > 0 && high_bytes > low_bytes)
    return 1e-6 * low_us * exp(log(high_us / low_us) * log(n_bytes / low_bytes) / log(high_bytes / low_bytes));
  if (high_us > 0) return 1e-6 * high_us;
  if (low_bytes > 0) return 1e-6 * low_us * n_bytes / low_bytes;
  return machine->link_bytes_per_s > 0 ? 2.0 * (ranks - 1) / ranks * n_bytes / machine->link_bytes_per_s : -1;
}

bool yk_machine_has_all_reduces(const yk_machine_rates *machine, int ranks)
{
  for (size_t i = 0; i < machine->n_all_reduces; i++)
    if (machine->all_reduces[i].ranks == ranks) return true;
  return false;
}

/* Sums of the times by bound. */
typedef struct sum {
  const yk_machine_rates *machine;
  double ranks;
  double bound_s[YK_BOUNDS];
  yk_step_work work;
} sum;

/* Adds n operations with the given bytes and flops each. */
static void add_operation(sum *total, double n, double bytes, double flops)
{
  double memory_s = bytes / total->machine->memory_bytes_per_s, gemm_s = flops / total->machine->gemm_flops;
  total->bound_s[memory_s >= gemm_s ? YK_BOUND_MEMORY : YK_BOUND_GEMM] += n * fmax(memory_s, gemm_s) / total->ranks;
  total->work.memory_s += n * memory_s / total->ranks;
  total->work.gemm_s += n * gemm_s / total->ranks;
}

static void add_product(sum *total, double n, double k, double columns, double rows, double element_bytes)
{
  add_operation(total, n, k * columns * element_bytes, 2 * rows * k * columns);
}

/* Bytes of a weight of a group. */
static double bytes_of(const yk_model_shapes *shapes, const yk_limit_load *load, yk_linear_group group)
{
  const bool is_quantised = shapes->element_bytes[group] > 0 && !load->no_quantisation;
  return is_quantised ? shapes->element_bytes[group] : load->element_bytes;
}

/* Matrices of an FFN that read its inputs. */
static double first_matrices(const yk_model_shapes *shapes)
{
  return shapes->has_plain_ffns ? 1 : 2;
}

static void add_ffn(sum *total, const yk_model_shapes *shapes, double layers, double ffn, double rows,
                    double element_bytes)
{
  const double hidden = (double)shapes->hidden_size;
  add_product(total, layers, hidden, first_matrices(shapes) * ffn, rows, element_bytes);
  add_product(total, layers, ffn, hidden, rows, element_bytes);
}

/* Mean number of different experts that are read, if each row chooses top_k of them at random. */
static double distinct_experts(const yk_model_shapes *shapes, double rows)
{
  double n = (double)shapes->n_experts;
  return n * (1 - pow(1 - (double)shapes->top_k / n, rows));
}

/* Ratio of the time of the rank with the most whole experts to an even share. */
static double unevenness(const sum *total, const yk_model_shapes *shapes)
{
  double n = (double)shapes->n_experts;
  return ceil(n / total->ranks) / n * total->ranks;
}

static void add_experts(sum *total, const yk_model_shapes *shapes, const yk_limit_load *load, double rows)
{
  double layers = (double)shapes->n_expert_layers, hidden = (double)shapes->hidden_size;
  double width = shapes->expert_width > 0 ? (double)shapes->expert_width : hidden, first = first_matrices(shapes);
  double weights = width * (double)shapes->expert_size, choices = rows * (double)shapes->top_k;
  double element_bytes = bytes_of(shapes, load, YK_LINEAR_EXPERTS), of_ffn = bytes_of(shapes, load, YK_LINEAR_FFN);
  double n_read = distinct_experts(shapes, rows), n = layers * (load->expert_parallel ? unevenness(total, shapes) : 1);
  add_product(total, layers, hidden, (double)shapes->n_experts, rows, load->element_bytes);
  if (shapes->expert_width > 0) add_product(total, layers, hidden, 2 * width, rows, of_ffn);
  add_operation(total, n, n_read * first * weights * element_bytes, 2 * choices * first * weights);
  add_operation(total, n, n_read * weights * element_bytes, 2 * choices * weights);
  add_ffn(total, shapes, layers, (double)shapes->shared_size, rows, of_ffn);
}

/* Heads of the layers that have a window, or of those that have none. */
typedef struct head_sizes {
  double layers, kv_heads, head_dim, window_tokens;
  double n_projected; /* of K and V */
} head_sizes;

static head_sizes local_heads(const yk_model_shapes *shapes)
{
  return (head_sizes){.layers = (double)shapes->n_local_layers,
                      .kv_heads = (double)shapes->local_kv_heads,
                      .head_dim = (double)shapes->local_head_dim,
                      .window_tokens = (double)shapes->window_tokens,
                      .n_projected = 2};
}

static head_sizes whole_heads(const yk_model_shapes *shapes)
{
  return (head_sizes){.layers = fmax((double)(yk_model_attention_layers(shapes) - shapes->n_local_layers), 0),
                      .kv_heads = (double)shapes->n_kv_heads,
                      .head_dim = (double)shapes->head_dim,
                      .n_projected = shapes->values_are_keys ? 1 : 2};
}

/* Adds the projections of grouped-query attention. */
static void add_grouped(sum *total, const yk_model_shapes *shapes, const head_sizes *heads, double rows,
                        double element_bytes)
{
  double hidden = (double)shapes->hidden_size, q_size = (double)shapes->n_heads * heads->head_dim;
  double kv_size = heads->n_projected * heads->kv_heads * heads->head_dim;
  double gates_size = shapes->has_attention_gates ? q_size : 0;
  add_product(total, heads->layers, hidden, q_size + gates_size + kv_size, rows, element_bytes);
  add_product(total, heads->layers, q_size, hidden, rows, element_bytes);
}

/* Adds gated delta nets and Mamba2 with the states of n_seqs sequences. */
static void add_states(sum *total, const yk_model_shapes *shapes, double rows, double n_seqs, double element_bytes)
{
  double layers = (double)shapes->n_delta_layers, hidden = (double)shapes->hidden_size;
  double n_values = (double)shapes->delta_value_heads, key_dim = (double)shapes->delta_key_dim;
  double keys_size = (double)shapes->delta_key_heads * key_dim,
         values_size = n_values * (double)shapes->delta_value_dim;
  double state_size = key_dim * values_size;
  add_product(total, layers, hidden, 2 * (keys_size + values_size + n_values), rows, element_bytes);
  add_operation(total, layers, n_seqs * 2 * state_size * sizeof(float), 2 * rows * 3 * state_size);
  add_product(total, layers, values_size, hidden, rows, element_bytes);

  double mambas = (double)shapes->n_mamba_layers, heads = (double)shapes->mamba_heads;
  double width = heads * (double)shapes->mamba_head_dim, state_dim = (double)shapes->mamba_state_dim;
  double groups_size = 2 * (double)shapes->mamba_groups * state_dim;
  add_product(total, mambas, hidden, 2 * width + groups_size + heads, rows, element_bytes);
  add_operation(total, mambas, n_seqs * 2 * width * state_dim * sizeof(float), 2 * rows * 2 * width * state_dim);
  add_product(total, mambas, width, hidden, rows, element_bytes);
}

/* Adds the projections of latent attention. Each rank computes q_a and the latent vector itself: `repeated` (the number
 * of ranks) times in all. kv_b is multiplied as floats of float_bytes; it counts once a row, the minimum both with
 * absorbed weights and without. */
static void add_latent(sum *total, const yk_model_shapes *shapes, double repeated, double rows, double element_bytes,
                       double float_bytes)
{
  double layers = (double)shapes->n_layers, hidden = (double)shapes->hidden_size, heads = (double)shapes->n_heads;
  double q_size = heads * (double)(shapes->nope_dim + shapes->rope_dim), q_rank = (double)shapes->q_rank;
  double kv_rank = (double)shapes->kv_rank, value_dim = (double)shapes->value_dim;
  add_product(total, layers * repeated, hidden, kv_rank + (double)shapes->rope_dim, rows, element_bytes);
  if (q_rank > 0) add_product(total, layers * repeated, hidden, q_rank, rows, element_bytes);
  add_product(total, layers, q_rank > 0 ? q_rank : hidden, q_size, rows, element_bytes);
  add_product(total, layers, kv_rank, heads * ((double)shapes->nope_dim + value_dim), rows, float_bytes);
  add_product(total, layers, heads * value_dim, hidden, rows, element_bytes);
}

/* Pairs of a row and a position that the row attends to, in prompts and in decodes, and positions whose K and V are
 * read. */
typedef struct pairs {
  double read_tokens, of_prompts, of_decodes;
} pairs;

/* Rows of a step, which attend to positions within a window; 0: no window. */
typedef struct view {
  const yk_limit_load *load;
  double prompts;  /* number of prompts whose rows the step has, without the shared prefix; may be a fraction */
  double prefixes; /* shared prefixes whose rows the step has */
  double decodes;  /* sequences with one row */
  double prompt_rows;
} view;

static double of_window(double tokens, double window)
{
  return window > 0 ? fmin(tokens, window) : tokens;
}

/* Pairs of a prompt of n tokens with itself. */
static double triangle(double n, double window)
{
  const double seen = of_window(n, window);
  return seen * n - seen * seen / 2;
}

static pairs pairs_of(const view *v, double window)
{
  const yk_limit_load *load = v->load;
  const double context = of_window(load->input_len + load->output_len / 2, window);
  const double whole = triangle(load->input_len, window), prefix = triangle(load->shared_prefix, window);
  return (pairs){.read_tokens = v->prompt_rows + v->decodes * context,
                 .of_prompts = v->prompts * (whole - prefix) + v->prefixes * prefix,
                 .of_decodes = v->decodes * context};
}

/* Bytes of K and V of a token in one layer, or of its latent vector, which every rank reads. */
static double kv_bytes_of(const yk_model_shapes *shapes, const head_sizes *heads, const yk_limit_load *load)
{
  if (shapes->kv_rank > 0) return load->ranks * (double)(shapes->kv_rank + shapes->rope_dim) * load->element_bytes;
  double head_bytes = load->kv_in_8_bits ? heads->head_dim + sizeof(float) : heads->head_dim * load->element_bytes;
  return 2 * heads->kv_heads * head_bytes;
}

/* Flops of attention over these pairs: a product with K and one with V. With latent attention, prompts expand latent
 * vectors to K and V, and decodes multiply by the latent vectors. */
static double attention_flops(const yk_model_shapes *s, const head_sizes *heads, const pairs *p)
{
  const double n_heads = (double)s->n_heads;
  if (s->kv_rank == 0) return 4 * n_heads * heads->head_dim * (p->of_prompts + p->of_decodes);
  return 2 * n_heads *
         (p->of_prompts * (double)(s->nope_dim + s->rope_dim + s->value_dim) +
          p->of_decodes * (double)(2 * s->kv_rank + s->rope_dim));
}

static void add_attention(sum *total, const yk_model_shapes *shapes, const yk_limit_load *load, double rows,
                          const view *seen)
{
  const double element = bytes_of(shapes, load, YK_LINEAR_ATTENTION);
  const head_sizes kinds[] = {whole_heads(shapes), local_heads(shapes)};
  if (shapes->kv_rank > 0) add_latent(total, shapes, load->ranks, rows, element, load->element_bytes);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const pairs p = pairs_of(seen, kinds[i].window_tokens);
    if (shapes->kv_rank == 0) add_grouped(total, shapes, &kinds[i], rows, element);
    add_operation(total, kinds[i].layers, p.read_tokens * kv_bytes_of(shapes, &kinds[i], load),
                  attention_flops(shapes, &kinds[i], &p));
  }
}

/* Adds one step with the given number of rows, with a row of lm_head for each of n_seqs sequences. */
static void add_step(sum *total, const yk_model_shapes *shapes, const yk_limit_load *load, double rows, double n_seqs,
                     const view *seen)
{
  add_attention(total, shapes, load, rows, seen);
  add_states(total, shapes, rows, n_seqs, bytes_of(shapes, load, YK_LINEAR_STATES));
  add_ffn(total, shapes, (double)yk_model_dense_layers(shapes), (double)shapes->intermediate_size, rows,
          bytes_of(shapes, load, YK_LINEAR_FFN));
  if (shapes->n_expert_layers > 0) add_experts(total, shapes, load, rows);
  const double hidden = (double)shapes->hidden_size;
  add_product(total, 1, hidden, (double)shapes->vocab_size, n_seqs, load->head_in_8_bits ? 1 : load->element_bytes);
  double all_reduce_s = yk_machine_all_reduce_s(total->machine, load->ranks, rows * hidden * load->element_bytes);
  const double n_all_reduces = (double)yk_model_sublayers(shapes) + 1; /* one for the embedding */
  total->bound_s[YK_BOUND_LINK] += n_all_reduces * fmax(all_reduce_s, 0);
}

static sum empty_sum(const yk_machine_rates *machine, const yk_limit_load *load)
{
  return (sum){.machine = machine, .ranks = machine->is_shared ? 1 : load->ranks};
}

yk_step_work yk_limit_decode_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load)
{
  sum step = empty_sum(machine, load);
  const view seen = {.load = load, .decodes = load->batch};
  add_step(&step, shapes, load, load->batch, load->batch, &seen);
  return step.work;
}

yk_step_work yk_limit_prompt_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load, double rows)
{
  sum step = empty_sum(machine, load);
  const view seen = {.load = load, .prompts = rows / load->input_len, .prompt_rows = rows};
  add_step(&step, shapes, load, rows, rows / load->input_len, &seen);
  return step.work;
}

static double total_of(const sum *added)
{
  return added->bound_s[YK_BOUND_MEMORY] + added->bound_s[YK_BOUND_GEMM] + added->bound_s[YK_BOUND_LINK];
}

void yk_limit_compute(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                      yk_limit *out)
{
  sum prefill = empty_sum(machine, load), decode = prefill;
  double n_decodes = load->output_len - 1;
  double rows = load->batch * (load->input_len - load->shared_prefix) + load->shared_prefix;
  const view prompts = {.load = load, .prompts = load->batch, .prefixes = 1, .prompt_rows = rows};
  const view decodes = {.load = load, .decodes = load->batch};
  add_step(&prefill, shapes, load, rows, load->batch, &prompts);
  add_step(&decode, shapes, load, load->batch, load->batch, &decodes);
  *out = (yk_limit){.prefill_s = total_of(&prefill), .decode_step_s = total_of(&decode)};
  out->total_s = out->prefill_s + n_decodes * out->decode_step_s;
  for (int i = 0; i < YK_BOUNDS; i++) {
    out->bound_s[i] = prefill.bound_s[i] + n_decodes * decode.bound_s[i];
    if (out->bound_s[i] > out->bound_s[out->bound]) out->bound = (yk_limit_bound)i;
  }
}

void yk_limit_compute_flow(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                           yk_limit *out)
{
  sum step = empty_sum(machine, load);
  double n_steps = load->output_len, n_decodes = n_steps - 1, a_step = load->batch / n_steps;
  double own = load->input_len - load->shared_prefix, rows = a_step * (own + n_decodes);
  const view seen = {.load = load, .prompts = a_step, .decodes = a_step * n_decodes, .prompt_rows = a_step * own};
  add_step(&step, shapes, load, rows, load->batch, &seen);
  *out = (yk_limit){.decode_step_s = total_of(&step), .total_s = n_steps * total_of(&step)};
  for (int i = 0; i < YK_BOUNDS; i++) {
    out->bound_s[i] = n_steps * step.bound_s[i];
    if (out->bound_s[i] > out->bound_s[out->bound]) out->bound = (yk_limit_bound)i;
  }
}
