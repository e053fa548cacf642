#include "comm/conformance_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void abort_body(rank_case *c)
{
  if (c->misbehave) {
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* lets the other ranks wait first */
    c->comm->ops->abort(c->comm);
    c->comm->ops->abort(c->comm);
  }
  c->status = c->comm->ops->barrier(c->comm, NULL);
  if (c->comm->ops->barrier(c->comm, NULL) == YK_OK) c->mismatches++; /* it stays aborted */
}

/* Arrays of a sum: partial, residual, y, w. */
static void make_sum(rank_case *c, yk_all_reduce_add_norm_args *args)
{
  size_t hidden = (size_t)c->hidden, n = (size_t)c->n_rows * hidden;
  *args = (yk_all_reduce_add_norm_args){.partial = {.rows = case_array(c, c->comm->rank, n)},
                                        .residual = case_array(c, 1, n),
                                        .y = case_array(c, 2, n),
                                        .w = case_array(c, 3, hidden),
                                        .n_rows = c->n_rows,
                                        .hidden = c->hidden,
                                        .alpha = 1,
                                        .eps = 1e-5f};
}

static void free_sum(rank_case *c, const yk_all_reduce_add_norm_args *args)
{
  yk_device *dev = c->comm->dev;
  void *const arrays[] = {args->partial.rows, args->residual, args->y, (void *)(uintptr_t)args->w};
  for (int i = 0; i < 4; i++) dev->ops->free(dev, arrays[i]);
}

static yk_status sum_and_wait(rank_case *c, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  YK_TRY(c->comm->ops->all_reduce_add_norm(c->comm, args, err));
  return c->comm->dev->ops->sync(c->comm->dev, err);
}

/* Aborted while a device waits for an absent rank. */
void abort_sum_body(rank_case *c)
{
  yk_all_reduce_add_norm_args args;
  make_sum(c, &args);
  case_barrier(c);
  if (c->misbehave) {
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    c->comm->ops->abort(c->comm);
  }
  c->status = sum_and_wait(c, &args, NULL);
  if (sum_and_wait(c, &args, NULL) == YK_OK) c->mismatches++; /* it stays aborted */
  if (c->comm->dev->ops->settle) c->comm->dev->ops->settle(c->comm->dev);
  free_sum(c, &args);
}

/* Every other rank names the absent rank, within the time limit. */
void missing_body(rank_case *c)
{
  yk_all_reduce_add_norm_args args;
  yk_err err = YK_ERR_INIT;
  char name[16];
  make_sum(c, &args);
  case_barrier(c);
  c->status = YK_E_COMM;
  if (!c->misbehave) {
    int64_t start_ns = yk_clock_now_ns();
    c->status = sum_and_wait(c, &args, &err);
    double waited_s = yk_clock_seconds_since(start_ns);
    snprintf(name, sizeof name, "for rank %d", c->misbehaving_rank);
    if (err.rank != c->misbehaving_rank || !strstr(err.message, name) || waited_s > c->fixture->step_limit_s) {
      printf("rank %d: expected \"%s\", found rank %d, \"%s\", after %.3f s\n", c->comm->rank, name, err.rank,
             err.message, waited_s);
      c->mismatches++;
    }
    if (sum_and_wait(c, &args, NULL) == YK_OK) c->mismatches++; /* the error persists */
  }
  free_sum(c, &args);
}
