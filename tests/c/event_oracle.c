/*
 * Oracle for event arrays: libpcp_pmda's builder and libpcp's encoder and unpacker, driven by lines on stdin,
 * one line of answer each.
 *
 *   new E|H                            handle of a new array of that kind
 *   reset H | release H                return code
 *   record H SEC FRACTION FLAGS        return code (FLAGS hexadecimal, FRACTION micro- or nanoseconds)
 *   missed H SEC FRACTION COUNT        return code
 *   param H PMID TYPE BYTES            return code (PMID hexadecimal, BYTES the value in host form)
 *   get H                              the array in host form, pad bytes cleared
 *   wire H                             the array as it is in a result PDU, pad bytes cleared
 *   unpack E|H BYTES                   what the unpack function makes of a value block in host form, or "crash"
 *   summary E|H BYTES                  what pmPrintValue prints for it
 *
 * BYTES are hexadecimal, "-" for none. Built with: cc event_oracle.c -lpcp_pmda -lpcp
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pcp/pmapi.h>
#include <pcp/pmda.h>

/* Exported by libpcp, but in none of the installed headers. */
extern int __pmSendResult(int, int, const pmResult *);

enum { MAX_HANDLES = 1024, SLACK = 64 };
static int highres_handle[MAX_HANDLES];

static void fail(const char *why)
{
    printf("oracle: %s\n", why);
    exit(1);
}

static const char *word(void)
{
    const char *text = strtok(NULL, " \n");
    if (text == NULL)
        fail("argument missing");
    return text;
}

static long long number(int base)
{
    return base == 16 ? (long long)strtoull(word(), NULL, 16) : strtoll(word(), NULL, base);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes of a hexadecimal word, with SLACK zero bytes behind them. */
static unsigned char *bytes(size_t *len)
{
    const char *text = word();
    size_t digits = strcmp(text, "-") == 0 ? 0 : strlen(text);
    unsigned char *out = calloc(1, digits / 2 + SLACK);
    if (out == NULL)
        fail("no memory");
    for (*len = 0; *len < digits / 2; ++*len) {
        int high = digit(text[2 * *len]), low = digit(text[2 * *len + 1]);
        if (high < 0 || low < 0)
            fail("not hexadecimal");
        out[*len] = high << 4 | low;
    }
    return out;
}

static void put_hex(FILE *out, const void *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *byte = data;
    if (len == 0)
        putc('-', out);
    for (size_t i = 0; i < len; i++) {
        putc_unlocked(digits[byte[i] >> 4], out);
        putc_unlocked(digits[byte[i] & 15], out);
    }
}

static unsigned int load(const unsigned char *at)
{
    unsigned int value;
    memcpy(&value, at, 4);
    return value;
}

/* Clears in `target` the bytes that are padding in the well-formed host array `host`. */
static void clear_pads(const unsigned char *host, int highres, unsigned char *target)
{
    size_t at = 8, header = highres ? 24 : 16;
    int records = load(host + 4);
    while (records-- > 0) {
        unsigned int flags = load(host + at + header - 8);
        int params = flags & PM_EVENT_FLAG_MISSED ? 0 : (int)load(host + at + header - 4);
        at += header;
        while (params-- > 0) {
            size_t len = load(host + at + 4) & 0xffffff;
            size_t end = at + 4 + ((len + 3) & ~(size_t)3);
            memset(target + at + 4 + len, 0, end - (at + 4 + len));
            at = end;
        }
    }
}

static void *array_of(int handle)
{
    void *array = highres_handle[handle] ? (void *)pmdaEventGetHighResAddr(handle)
                                         : (void *)pmdaEventGetAddr(handle);
    if (array == NULL)
        fail("no such array");
    return array;
}

static void get(int handle)
{
    unsigned char *array = array_of(handle);
    size_t len = load(array) & 0xffffff;
    unsigned char *copy = malloc(len);
    memcpy(copy, array, len);
    clear_pads(array, highres_handle[handle], copy);
    put_hex(stdout, copy, len);
    free(copy);
}

static void wire(int handle)
{
    unsigned char *array = array_of(handle);
    pmValueSet set = { .pmid = pmID_build(29, 0, 136), .numval = 1, .valfmt = PM_VAL_SPTR };
    set.vlist[0].inst = PM_IN_NULL;
    set.vlist[0].value.pval = (pmValueBlock *)array;
    pmResult result = { .numpmid = 1, .vset = { &set } };
    int fd = memfd_create("pdu", 0);
    int sts = __pmSendResult(fd, 0, &result);
    if (sts < 0)
        fail(pmErrStr(sts));
    off_t size = lseek(fd, 0, SEEK_END);
    unsigned char *pdu = malloc(size);
    if (pread(fd, pdu, size, 0) != size)
        fail("cannot read the PDU back");
    close(fd);
    /* The value's word index is behind the PDU header, the timestamp, a count, 3 words of set and the instance. */
    size_t at = 4 * (size_t)__builtin_bswap32(load(pdu + 12 + 8 + 4 + 12 + 4));
    size_t len = load(array) & 0xffffff;
    if (at + len > (size_t)size)
        fail("the PDU is too short");
    clear_pads(array, highres_handle[handle], pdu + at);
    put_hex(stdout, pdu + at, len);
    free(pdu);
}

static int add_param(int handle)
{
    pmID pmid = (pmID)number(16);
    int type = (int)number(10);
    size_t len;
    unsigned char *value = bytes(&len);
    pmAtomValue atom;
    memset(&atom, 0, sizeof(atom));
    if (type == PM_TYPE_STRING)
        atom.cp = (char *)value;
    else if (type == PM_TYPE_AGGREGATE) {
        /* Its own vtype does not matter: the builder writes the type it was called with. */
        atom.vbp = malloc(PM_VAL_HDR_SIZE + len);
        atom.vbp->vtype = len % 2 ? PM_TYPE_AGGREGATE : PM_TYPE_STRING;
        atom.vbp->vlen = PM_VAL_HDR_SIZE + len;
        memcpy(atom.vbp->vbuf, value, len);
    } else
        memcpy(&atom, value, len < sizeof(atom) ? len : sizeof(atom));
    int sts = highres_handle[handle] ? pmdaEventAddHighResParam(handle, pmid, type, &atom)
                                     : pmdaEventAddParam(handle, pmid, type, &atom);
    if (type == PM_TYPE_AGGREGATE)
        free(atom.vbp);
    free(value);
    return sts;
}

static int add_record(int handle, int missed)
{
    long long sec = number(10), fraction = number(10);
    int last = (int)number(missed ? 10 : 16);
    struct timeval tv = { .tv_sec = sec, .tv_usec = fraction };
    struct timespec ts = { .tv_sec = sec, .tv_nsec = fraction };
    if (highres_handle[handle])
        return missed ? pmdaEventAddHighResMissedRecord(handle, &ts, last)
                      : pmdaEventAddHighResRecord(handle, &ts, last);
    return missed ? pmdaEventAddMissedRecord(handle, &tv, last) : pmdaEventAddRecord(handle, &tv, last);
}

static void put_sets(FILE *out, long long sec, long long fraction, int count, pmValueSet **sets)
{
    fprintf(out, " | %lld %lld %d", sec, fraction, count);
    for (int i = 0; i < count; i++) {
        pmValueSet *set = sets[i];
        fprintf(out, " %08x=", set->pmid);
        if (set->numval != 1 || set->vlist[0].inst != PM_IN_NULL)
            fprintf(out, "numval %d inst %d ", set->numval, set->vlist[0].inst);
        if (set->valfmt == PM_VAL_INSITU) {
            fprintf(out, "insitu:");
            put_hex(out, &set->vlist[0].value.lval, 4);
        } else {
            pmValueBlock *block = set->vlist[0].value.pval;
            fprintf(out, "%d:", block->vtype);
            put_hex(out, block->vbuf, block->vlen - PM_VAL_HDR_SIZE);
        }
    }
}

static void unpack_to(FILE *out, int highres, void *block)
{
    pmValueSet set = { .pmid = pmID_build(29, 0, 136), .numval = 1, .valfmt = PM_VAL_SPTR };
    set.vlist[0].inst = PM_IN_NULL;
    set.vlist[0].value.pval = block;
    pmResult **low = NULL;
    pmHighResResult **high = NULL;
    int sts = highres ? pmUnpackHighResEventRecords(&set, 0, &high) : pmUnpackEventRecords(&set, 0, &low);
    fprintf(out, "%d", sts);
    for (int i = 0; i < sts; i++) {
        if (highres)
            put_sets(out, high[i]->timestamp.tv_sec, high[i]->timestamp.tv_nsec, high[i]->numpmid, high[i]->vset);
        else
            put_sets(out, low[i]->timestamp.tv_sec, low[i]->timestamp.tv_usec, low[i]->numpmid, low[i]->vset);
    }
}

/* In a child process: there are arrays that make libpcp corrupt its heap. */
static void unpack(int highres, void *block)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        fail("cannot fork");
    if (child == 0) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        unpack_to(out, highres, block);
        fclose(out);
        fwrite(text, 1, len, stdout);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        printf("crash");
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;

    setenv("TZ", "UTC", 1);
    /* The unpack functions dump what they refuse to stderr. */
    if (freopen("/dev/null", "w", stderr) == NULL)
        fail("no /dev/null");
    unsigned int first[] = { 9u << 24 | 24, 1, 0, 0, 1, 0 };
    unpack_to(stderr, 0, first);
    while (getline(&line, &size, stdin) > 0) {
        const char *verb = strtok(line, " \n");
        if (verb == NULL)
            fail("empty line");
        if (strcmp(verb, "new") == 0) {
            int highres = word()[0] == 'H';
            int handle = highres ? pmdaEventNewHighResArray() : pmdaEventNewArray();
            if (handle >= 0 && handle < MAX_HANDLES)
                highres_handle[handle] = highres;
            printf("%d", handle);
        } else if (strcmp(verb, "unpack") == 0 || strcmp(verb, "summary") == 0) {
            int highres = word()[0] == 'H';
            size_t len;
            unsigned char *block = bytes(&len);
            if (verb[0] == 'u')
                unpack(highres, block);
            else {
                pmValue value = { .inst = PM_IN_NULL, .value.pval = (pmValueBlock *)block };
                pmPrintValue(stdout, PM_VAL_SPTR, highres ? PM_TYPE_HIGHRES_EVENT : PM_TYPE_EVENT, &value, 0);
            }
            free(block);
        } else {
            int handle = (int)number(10);
            if (handle < 0 || handle >= MAX_HANDLES)
                fail("handle out of range");
            if (strcmp(verb, "reset") == 0)
                printf("%d", highres_handle[handle] ? pmdaEventResetHighResArray(handle)
                                                    : pmdaEventResetArray(handle));
            else if (strcmp(verb, "release") == 0)
                printf("%d", highres_handle[handle] ? pmdaEventReleaseHighResArray(handle)
                                                    : pmdaEventReleaseArray(handle));
            else if (strcmp(verb, "record") == 0)
                printf("%d", add_record(handle, 0));
            else if (strcmp(verb, "missed") == 0)
                printf("%d", add_record(handle, 1));
            else if (strcmp(verb, "param") == 0)
                printf("%d", add_param(handle));
            else if (strcmp(verb, "get") == 0)
                get(handle);
            else if (strcmp(verb, "wire") == 0)
                wire(handle);
            else
                fail("unknown verb");
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
