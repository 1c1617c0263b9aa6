/* The load client in C: one request in flight on each of N sockets, over a length-prefixed protocol.
 *
 *     load PORT CONNECTIONS WARM_UP_S SECONDS < WORK
 *
 * WORK is blobs, each with its length in front (four bytes, big-endian): the greeting (empty for none), the good
 * response, its mask (as long: zero where a byte may be anything), then the requests, whole frames. Each connection
 * sends them in turn, beginning with another one. Every response must be the good one under the mask; the first that
 * is not ends the run with a line on stderr and exit code 1, as do a closed connection and ten seconds of silence.
 *
 * Writes one JSON object to stdout. Latencies are kept in a histogram whose buckets are 1/64 of a power of two wide,
 * so that a percentile is right to 0.8 percent. Answers that come in the warm-up count for `answered` alone.
 *
 * What `benchmarks/load.py` is in Python; built on first use by `benchmarks/peers/driver.py`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_NS 10000000000ULL
#define REQUESTS_MAX 1024
#define SUB_BITS 6                            /* 64 buckets for each power of two of nanoseconds */
#define BUCKETS ((64 - SUB_BITS + 1) << SUB_BITS)
#define EVENTS 256

struct blob {
    uint32_t size;
    uint8_t *bytes;
};

struct connection {
    int fd;
    int request;                              /* which of the requests is in flight */
    int waits;                                /* for room in the socket */
    uint32_t sent;                            /* how much of it is written */
    uint32_t got;                             /* how much of its response is read */
    uint64_t began_ns;
    uint8_t *response;
};

static struct blob hello, good, mask, requests[REQUESTS_MAX];
static int request_count;
static uint64_t histogram[BUCKETS];
static int epoll_fd;

static void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int bucket_of(uint64_t ns) {
    int shift;
    if (ns < (1U << SUB_BITS)) return (int)ns;
    shift = 63 - __builtin_clzll(ns) - SUB_BITS;
    return ((shift + 1) << SUB_BITS) + (int)((ns >> shift) - (1U << SUB_BITS));
}

/* The middle of a bucket. */
static double value_of(int bucket) {
    int shift = (bucket >> SUB_BITS) - 1;
    if (shift < 0) return bucket;
    return ((double)((1U << SUB_BITS) + (bucket & ((1 << SUB_BITS) - 1))) + 0.5) * (double)(1ULL << shift);
}

/* The value below which a share of all lie, in milliseconds. */
static double percentile_ms(uint64_t count, double share) {
    uint64_t seen = 0, wanted = (uint64_t)((double)count * share);
    int bucket;
    for (bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram[bucket];
        if (seen > wanted) return value_of(bucket) / 1e6;
    }
    return 0;
}

/* Reads a blob of the work; 0 at its end. */
static int read_blob(struct blob *blob) {
    uint32_t size;
    if (fread(&size, 1, sizeof size, stdin) != sizeof size) return 0;
    blob->size = ntohl(size);
    blob->bytes = malloc(blob->size + 1);
    if (!blob->bytes || fread(blob->bytes, 1, blob->size, stdin) != blob->size) fail("the work is cut off");
    return 1;
}

static void read_work(void) {
    if (!read_blob(&hello) || !read_blob(&good) || !read_blob(&mask)) fail("no work on stdin");
    if (good.size < 4 || mask.size != good.size) fail("a mask must be as long as the response");
    while (request_count < REQUESTS_MAX && read_blob(&requests[request_count])) request_count++;
    if (!request_count) fail("no requests on stdin");
}

/* The greeting, before the socket is made non-blocking; its response is any frame. */
static void greet(int fd) {
    uint8_t head[4], byte;
    uint32_t left, at;
    ssize_t got;
    if (write(fd, hello.bytes, hello.size) != (ssize_t)hello.size) fail("greeting: %s", strerror(errno));
    for (at = 0; at < 4; at += (uint32_t)got)
        if ((got = read(fd, head + at, 4 - at)) <= 0) fail("the greeting was not answered");
    memcpy(&left, head, 4);
    for (left = ntohl(left); left; left--)
        if (read(fd, &byte, 1) != 1) fail("the greeting was not answered");
}

static void open_connection(struct connection *connection, int port, int number) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = 10};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (hello.size) greet(fd);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    connection->fd = fd;
    connection->request = number % request_count;
    connection->response = malloc(good.size + 1);
    if (!connection->response || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll: %s", strerror(errno));
}

/* Writes what is left of the request; waits for room in the socket if there is none. */
static void send_rest(struct connection *connection) {
    const struct blob *request = &requests[connection->request];
    while (connection->sent < request->size) {
        ssize_t wrote = write(connection->fd, request->bytes + connection->sent, request->size - connection->sent);
        if (wrote < 0 && errno != EAGAIN) fail("write: %s", strerror(errno));
        if (wrote < 0) break;
        connection->sent += (uint32_t)wrote;
    }
    if ((connection->sent < request->size) != connection->waits) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        connection->waits = !connection->waits;
        if (connection->waits) event.events |= EPOLLOUT;
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    }
}

static void send_request(struct connection *connection, uint64_t now) {
    connection->sent = connection->got = 0;
    connection->began_ns = now;
    send_rest(connection);
}

static void check(const struct connection *connection) {
    uint32_t at, length;
    if (!memcmp(connection->response, good.bytes, good.size)) return;
    memcpy(&length, connection->response, 4);
    for (at = 0; at < good.size; at++)
        if ((connection->response[at] ^ good.bytes[at]) & mask.bytes[at])
            fail("not the good response: byte %u of %u is 0x%02x and not 0x%02x, in a frame of %u", at, good.size,
                 connection->response[at], good.bytes[at], ntohl(length));
}

/* Reads what is there; whether the response is whole, and then it is the good one. */
static int receive(struct connection *connection) {
    ssize_t got = read(connection->fd, connection->response + connection->got, good.size + 1 - connection->got);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) fail("the server closed the connection: %s", got ? strerror(errno) : "end of file");
    if (connection->sent < requests[connection->request].size) fail("a response before the request was sent");
    connection->got += (uint32_t)got;
    if (connection->got >= 4 && memcmp(connection->response, good.bytes, 4)) check(connection);
    if (connection->got < good.size) return 0;
    check(connection);
    if (connection->got > good.size) fail("more than one response to a request");
    return 1;
}

int main(int count, char **words) {
    struct connection *connections;
    struct epoll_event events[EVENTS];
    uint64_t begin, end, now, last, answered = 0, measured = 0, max_ns = 0;
    double warm_up_s, seconds, cpu_before_s = 0;
    int number, ready, port, connection_count, is_warm = 0;
    if (count != 5) fail("load PORT CONNECTIONS WARM_UP_S SECONDS < WORK");
    port = atoi(words[1]);
    connection_count = atoi(words[2]);
    warm_up_s = atof(words[3]);
    seconds = atof(words[4]);
    if (port < 1 || connection_count < 1 || warm_up_s < 0 || seconds <= 0) fail("a number is out of range");
    read_work();
    epoll_fd = epoll_create1(0);
    connections = calloc((size_t)connection_count, sizeof *connections);
    if (epoll_fd < 0 || !connections) fail("%s", strerror(errno));
    for (number = 0; number < connection_count; number++) open_connection(&connections[number], port, number);
    last = now = now_ns();
    begin = now + (uint64_t)(warm_up_s * 1e9);
    end = begin + (uint64_t)(seconds * 1e9);
    for (number = 0; number < connection_count; number++) send_request(&connections[number], now_ns());
    while (now < end) {
        ready = epoll_wait(epoll_fd, events, EVENTS, 100);
        if (ready < 0 && errno != EINTR) fail("epoll: %s", strerror(errno));
        now = now_ns();
        if (!is_warm && now >= begin) {
            is_warm = 1;
            cpu_before_s = cpu_s();
        }
        if (now - last > SILENCE_NS) fail("no response for ten seconds");
        for (number = 0; number < ready; number++) {
            struct connection *connection = events[number].data.ptr;
            if (events[number].events & EPOLLOUT) send_rest(connection);
            if (!(events[number].events & ~(uint32_t)EPOLLOUT) || !receive(connection)) continue;
            now = last = now_ns();
            answered++;
            if (now >= begin && now < end) {
                uint64_t took = now - connection->began_ns;
                measured++;
                histogram[bucket_of(took)]++;
                if (took > max_ns) max_ns = took;
            }
            connection->request = (connection->request + 1) % request_count;
            send_request(connection, now);
        }
    }
    if (!measured) fail("no request was answered in time");
    printf("{\"answered\":%llu,\"measured\":%llu,\"seconds\":%.3f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"max_ms\":%.4f,"
           "\"cpu_s\":%.4f}\n",
           (unsigned long long)answered, (unsigned long long)measured, seconds, percentile_ms(measured, 0.5),
           percentile_ms(measured, 0.99), (double)max_ns / 1e6, cpu_s() - cpu_before_s);
    return 0;
}
