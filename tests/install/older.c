/* older.c - the interface that a program compiled with the headers of an earlier version uses: the structs that it
 * allocates, filled and read by the present library. Prints an answer and the library's version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/tools.h>
#include <yoke/yoke.h>

static int fail(const char *what, const yk_err *err)
{
  fprintf(stderr, "older: %s: %s\n", what, err->message);
  return 1;
}

/* The bytes after a struct must not change. */
#define GUARDED(type, name)                                                                                            \
  struct {                                                                                                             \
    type it;                                                                                                           \
    unsigned char guard[64];                                                                                           \
  } name;                                                                                                              \
  memset(&name, 0xA5, sizeof name)

static int is_intact(const unsigned char guard[64])
{
  for (int i = 0; i < 64; i++)
    if (guard[i] != 0xA5) return 0;
  return 1;
}

static int answer(yk_engine *engine, const char *prompt, yk_err *err)
{
  GUARDED(yk_request_options, options);
  GUARDED(yk_request_usage, usage);
  yk_request *request, *ready;
  yk_waiter *waiter;
  const yk_output *output = NULL;
  if (yk_waiter_create(&waiter, err) != YK_OK) return fail("waiter", err);
  yk_request_options_init(engine, &options.it);
  options.it.text = prompt;
  options.it.sampling.temperature = 0;
  options.it.sampling.max_tokens = 32;
  options.it.waiter = waiter;
  if (yk_engine_submit(engine, &options.it, &request, err) != YK_OK) return fail(prompt, err);
  printf("%s", prompt);
  while (!output || output->finish == YK_FINISH_NONE) {
    yk_status status = yk_request_next(request, 0, &output, err);
    if (status == YK_E_AGAIN) status = yk_waiter_wait(waiter, 60, &ready, NULL, err);
    if (status != YK_OK) return fail(prompt, err);
    if (output) printf("%.*s", (int)output->text_bytes, output->text);
  }
  yk_request_get_usage(request, &usage.it);
  printf("\nprompt tokens: %d\n", (int)usage.it.prompt_tokens);
  yk_request_free(request);
  yk_waiter_free(waiter);
  return is_intact(options.guard) && is_intact(usage.guard) ? 0 : fail("a struct was overrun", err);
}

static int describe(yk_engine *engine, yk_err *err)
{
  GUARDED(yk_engine_info, info);
  GUARDED(yk_engine_stats, stats);
  GUARDED(yk_device_info, device);
  int n_devices;
  yk_engine_get_info(engine, &info.it);
  yk_engine_get_stats(engine, &stats.it);
  if (yk_device_list(&device.it, 1, &n_devices, err) != YK_OK) return fail("devices", err);
  printf("%s of %d ranks: %d requests\n", info.it.family, info.it.n_ranks, (int)stats.it.requests_finished);
  return is_intact(info.guard) && is_intact(stats.guard) && is_intact(device.guard) ? 0
                                                                                    : fail("a struct was overrun", err);
}

static int tools(yk_err *err)
{
  GUARDED(yk_convert_options, convert);
  GUARDED(yk_machine_options, machine);
  yk_convert_options_init(&convert.it);
  yk_machine_options_init(&machine.it);
  convert.it.model_dir = convert.it.out = "/no/such/model";
  yk_err expected = YK_ERR_INIT;
  if (yk_convert(&convert.it, &expected) == YK_OK) return fail("a model that is not there was converted", err);
  return is_intact(convert.guard) && is_intact(machine.guard) ? 0 : fail("a struct was overrun", err);
}

int main(int argc, char **argv)
{
  yk_err err = YK_ERR_INIT;
  yk_engine *engine;
  GUARDED(yk_engine_options, options);
  yk_process_init();
  if (argc != 3) return 2;
  yk_engine_options_init(&options.it);
  options.it.model_dir = argv[1];
  options.it.device = YK_DEVICE_CPU;
  options.it.n_ranks = 2;
  if (!is_intact(options.guard)) return fail("a struct was overrun", &err);
  if (yk_engine_create(&options.it, &engine, &err) != YK_OK) return fail(argv[1], &err);
  int status = answer(engine, argv[2], &err);
  if (status == 0) status = describe(engine, &err);
  if (status == 0) status = tools(&err);
  yk_engine_destroy(engine);
  return status;
}
