/*
 * Opponent for derived metrics: libpcp, driven by lines on stdin, one line of answer each. Fields are
 * separated by tabs.
 *
 *   archive PATH METRICS INSTANCES RECORDS   makes an archive of U64 counters m.n0, m.n1, ... and says "ok"
 *   expression TEXT                          adds to the list of definitions: "ok"
 *   register                                 in a child: registers all, looks every name up, binds every
 *                                            definition; nanoseconds
 *   evaluate                                 in a child: fetches all definitions through the archive;
 *                                            nanoseconds a fetch beyond the fetch of the operands alone
 *
 * Built with: cc derive.c -lpcp -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <pcp/pmapi.h>

enum { MAX_EXPRESSIONS = 20000, MAX_METRICS = 64 };
static char *expressions[MAX_EXPRESSIONS];
static int expression_count, metric_count, record_count;
static char path[4096];

static void fail(const char *why, int code)
{
    printf("oracle: %s: %s\n", why, code < 0 ? pmErrStr(code) : "");
    fflush(stdout);
    _exit(1);
}

static void check(const char *what, int code)
{
    if (code < 0)
        fail(what, code);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(name, 0);
    return found;
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void make_archive(int instances)
{
    void *library = dlopen("libpcp_import.so.1", RTLD_NOW);
    char name[64], text[64];
    if (library == NULL)
        fail("libpcp_import.so.1", 0);
    int (*start)(const char *, int) = symbol(library, "pmiStart");
    int (*metric)(const char *, pmID, int, pmInDom, int, pmUnits) = symbol(library, "pmiAddMetric");
    int (*instance)(pmInDom, const char *, int) = symbol(library, "pmiAddInstance");
    int (*handle)(const char *, const char *) = symbol(library, "pmiGetHandle");
    int (*value)(int, const char *) = symbol(library, "pmiPutValueHandle");
    int (*flush)(int, int) = symbol(library, "pmiWrite");
    int (*end)(void) = symbol(library, "pmiEnd");
    int *handles = calloc((size_t)metric_count * instances, sizeof *handles);
    pmInDom indom = pmInDom_build(245, 1);
    pmUnits none = { 0 };
    check("pmiStart", start(path, 0));
    for (int i = 0; i < instances; i++) {
        snprintf(text, sizeof text, "instance%d", i);
        check(text, instance(indom, text, i));
    }
    for (int m = 0; m < metric_count; m++) {
        snprintf(name, sizeof name, "m.n%d", m);
        check(name, metric(name, pmID_build(245, 0, m + 1), PM_TYPE_U64, indom, PM_SEM_COUNTER, none));
        for (int i = 0; i < instances; i++) {
            snprintf(text, sizeof text, "instance%d", i);
            check(text, handles[m * instances + i] = handle(name, text));
        }
    }
    for (int r = 0; r < record_count; r++) {
        for (int m = 0; m < metric_count; m++)
            for (int i = 0; i < instances; i++) {
                snprintf(text, sizeof text, "%d", 1000 * r * (m + 1) + i);
                check("pmiPutValueHandle", value(handles[m * instances + i], text));
            }
        check("pmiWrite", flush(1700000000 + r, 0));
    }
    check("pmiEnd", end());
    free(handles);
}

static void open_context(void)
{
    int context = pmNewContext(PM_CONTEXT_ARCHIVE, path);
    struct timeval start = { 0, 0 };
    if (context < 0)
        fail("pmNewContext", context);
    pmSetMode(PM_MODE_FORW, &start, 0);
}

static void register_all(void)
{
    char name[64];
    for (int i = 0; i < expression_count; i++) {
        snprintf(name, sizeof name, "d.n%d", i);
        if (pmRegisterDerived(name, expressions[i]) != NULL)
            fail(expressions[i], 0);
    }
}

static void look_up_all(pmID *pmids)
{
    char name[64];
    const char *names[1] = { name };
    pmDesc desc;
    for (int i = 0; i < expression_count; i++) {
        int code;
        snprintf(name, sizeof name, "d.n%d", i);
        if ((code = pmLookupName(1, names, &pmids[i])) < 0 || (code = pmLookupDesc(pmids[i], &desc)) < 0)
            fail(name, code);
    }
}

/* Nanoseconds a fetch, the first two (no history yet) left out. */
static long long fetch_all(int count, pmID *pmids)
{
    long long start = 0;
    for (int r = 0; r < record_count; r++) {
        pmResult *result;
        int code;
        if (r == 2)
            start = now();
        if ((code = pmFetch(count, pmids, &result)) < 0)
            fail("pmFetch", code);
        pmFreeResult(result);
    }
    return (now() - start) / (record_count - 2);
}

static void in_child(long long (*work)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("%lld\n", work());
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static long long time_register(void)
{
    static pmID pmids[MAX_EXPRESSIONS];
    open_context();
    long long start = now();
    register_all();
    look_up_all(pmids);
    return now() - start;
}

static long long time_evaluate(void)
{
    static pmID pmids[MAX_EXPRESSIONS], operands[MAX_METRICS];
    long long with, without;
    char name[64];
    const char *names[1] = { name };
    register_all();
    open_context();
    look_up_all(pmids);
    with = fetch_all(expression_count, pmids);
    open_context();
    for (int m = 0; m < metric_count; m++) {
        snprintf(name, sizeof name, "m.n%d", m);
        pmLookupName(1, names, &operands[m]);
    }
    without = fetch_all(metric_count, operands);
    return with - without;
}

int main(void)
{
    static char line[1 << 16];
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    setenv("PCP_DERIVED_CONFIG", "", 1);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *command = strtok(line, "\t\n");
        if (strcmp(command, "archive") == 0) {
            int instances;
            strncpy(path, strtok(NULL, "\t\n"), sizeof path - 1);
            metric_count = atoi(strtok(NULL, "\t\n"));
            instances = atoi(strtok(NULL, "\t\n"));
            record_count = atoi(strtok(NULL, "\t\n"));
            make_archive(instances);
            printf("ok\n");
        } else if (strcmp(command, "expression") == 0 && expression_count < MAX_EXPRESSIONS) {
            expressions[expression_count++] = strdup(strtok(NULL, "\n"));
            printf("ok\n");
        } else if (strcmp(command, "register") == 0) {
            in_child(time_register);
        } else if (strcmp(command, "evaluate") == 0) {
            in_child(time_evaluate);
        } else {
            fail("unknown command", 0);
        }
        fflush(stdout);
    }
    return 0;
}
