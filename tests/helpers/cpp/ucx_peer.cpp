// A peer of Dissociated IPC over UCX, written from the protocol's text: it knows UCX and the protocol, and of Arrow only
// where the header's type stands in the metadata. It handles errors in the mode "none" and has one connection for the
// metadata and one for the bodies, each with a worker of its own.
//
//   ucx_peer client HOST PORT METADATA_TAG DATA_TAG IDENT    asks for a stream and writes it to stdout
//   ucx_peer server PORT METADATA_TAG DATA_TAG [CLIENTS] < stream    serves a stream under any name; prints "ready"
//
// A stream in a pipe: for each message u64 length of the metadata, u64 length of the body (all ones: it has none), the
// metadata, the body. The server ends with its second client, or the one that CLIENTS says.
//
// Build: g++ -std=c++17 ucx_peer.cpp -lucp -lucs -o ucx_peer    (Debian: libucx-dev)
#include <arpa/inet.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

using Bytes = std::vector<uint8_t>;

static const uint64_t kNoBody = ~0ull;
static const uint64_t kSequenceMask = 0x00000000FFFFFFFFull;

[[noreturn]] static void fail(const std::string& what) {
  std::cerr << what << std::endl;
  exit(1);
}

static void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fail(std::string(what) + ": " + ucs_status_string(status));
}

static uint32_t load32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}

// Dissociated IPC: a message has a body if its header is a RecordBatch or a DictionaryBatch (Message.header_type).
static bool has_body(const Bytes& metadata) {
  uint32_t table = load32(metadata.data());
  uint32_t vtable = table - static_cast<int32_t>(load32(metadata.data() + table));
  uint16_t slot;
  memcpy(&slot, metadata.data() + vtable + 6, 2);
  uint8_t type = metadata.at(table + slot);
  return type == 2 || type == 3;
}

static ucp_context_h new_context() {
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  ucp_config_t* config;
  check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  ucp_context_h context;
  check(ucp_init(&params, config, &context), "ucp_init");
  ucp_config_release(config);
  return context;
}

// One end of a connection.
struct Link {
  ucp_worker_h worker;
  ucp_ep_h ep = nullptr;
  bool ended = false;                     // the peer is gone
  std::map<uint32_t, Bytes> metadata;     // that came, by number
  bool complete = false;                  // and the end of the stream, the number behind the last
  uint32_t end = 0;
  std::vector<void*> requests;

  explicit Link(ucp_context_h context) {
    ucp_worker_params_t params = {};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                         UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = 0;
    handler.cb = on_metadata;
    handler.arg = this;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
  }

  // UCX refuses connections whose two ends handle errors in different modes.
  ucs_status_t open(ucp_ep_params_t params) {
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t) { static_cast<Link*>(arg)->ended = true; };
    params.err_handler.arg = this;
    return ucp_ep_create(worker, &params, &ep);
  }

  void take(const uint8_t* data, size_t size) {
    if (size < 5 || data[0] > 1) fail("an untagged message without the prefix of the protocol");
    uint32_t number = load32(data + 1);
    if (data[0] == 1) {
      metadata[number] = Bytes(data + 5, data + size);
    } else {
      if (size != 5) fail("the end of the stream is longer than its prefix");
      complete = true;
      end = number;
    }
  }

  static ucs_status_t on_metadata(void* arg, const void*, size_t header_size, void* data, size_t size,
                                  const ucp_am_recv_param_t* param) {
    Link* link = static_cast<Link*>(arg);
    if (header_size) fail("metadata with a header");
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
      link->take(static_cast<const uint8_t*>(data), size);
      return UCS_OK;
    }
    // Nothing may be waited for in here.
    Arriving* arriving = new Arriving{link, Bytes(size)};
    ucp_request_param_t how = {};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.user_data = arriving;
    how.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* arg) {
      check(status, "metadata");
      static_cast<Arriving*>(arg)->end();
      ucp_request_free(request);
    };
    void* request = ucp_am_recv_data_nbx(link->worker, data, arriving->data.data(), size, &how);
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "metadata");
    if (request != nullptr) return UCS_INPROGRESS;
    arriving->end();
    return UCS_OK;
  }

  struct Arriving {
    Link* link;
    Bytes data;

    void end() {
      link->take(data.data(), data.size());
      delete this;
    }
  };

  void finish(void* request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "a request");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    check(ucp_request_check_status(request), "a request");
    ucp_request_free(request);
  }

  void later(void* request) {
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "a request");
    if (request != nullptr) requests.push_back(request);
  }

  Bytes receive(ucp_tag_message_h message, const ucp_tag_recv_info_t& info) {
    Bytes body(info.length);
    ucp_request_param_t how = {};
    finish(ucp_tag_msg_recv_nbx(worker, body.data(), body.size(), message, &how));
    return body;
  }
};

static void write_out(const void* data, size_t size) {
  if (size && fwrite(data, 1, size, stdout) != size) fail("stdout is closed");
}

static int client(const char* host, int port, uint64_t metadata_tag, uint64_t data_tag, const std::string& ident) {
  ucp_context_h context = new_context();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host, &address.sin_addr);
  ucp_ep_params_t to = {};
  to.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  to.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  to.sockaddr.addr = reinterpret_cast<sockaddr*>(&address);
  to.sockaddr.addrlen = sizeof(address);
  Link metadata(context), data(context);
  ucp_request_param_t how = {};
  for (auto [link, tag] : {std::pair(&metadata, metadata_tag), std::pair(&data, data_tag)}) {
    check(link->open(to), "ucp_ep_create");
    link->finish(ucp_tag_send_sync_nbx(link->ep, ident.data(), ident.size(), tag, &how));
  }
  for (uint32_t number = 0;; ++number) {
    while (!metadata.metadata.count(number) && !(metadata.complete && metadata.end == number)) {
      ucp_worker_progress(metadata.worker);
      if (metadata.ended) fail("the server is gone");
    }
    if (!metadata.metadata.count(number)) break;
    const Bytes& head = metadata.metadata[number];
    Bytes body;
    uint64_t lengths[2] = {head.size(), kNoBody};
    if (has_body(head)) {
      ucp_tag_recv_info_t info;
      ucp_tag_message_h message;
      while ((message = ucp_tag_probe_nb(data.worker, number, kSequenceMask, 1, &info)) == nullptr) {
        ucp_worker_progress(data.worker);
        if (data.ended) fail("the server is gone");
      }
      if (info.sender_tag != number) fail("a body of another type than 0, or with reserved bits");
      body = data.receive(message, info);
      lengths[1] = body.size();
    }
    write_out(lengths, sizeof lengths);
    write_out(head.data(), head.size());
    write_out(body.data(), body.size());
  }
  fflush(stdout);
  for (Link* link : {&metadata, &data}) link->finish(ucp_ep_close_nbx(link->ep, &how));
  return 0;
}

struct Stored {
  Bytes metadata, body;
  bool has_body;
};

static std::vector<Stored> stored() {
  Bytes all{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<Stored> found;
  for (size_t at = 0; at < all.size();) {
    uint64_t lengths[2];
    memcpy(lengths, all.data() + at, sizeof lengths);
    const uint8_t* head = all.data() + at + sizeof lengths;
    uint64_t body = lengths[1] == kNoBody ? 0 : lengths[1];
    found.push_back({Bytes(head, head + lengths[0]), Bytes(head + lengths[0], head + lengths[0] + body),
                     lengths[1] != kNoBody});
    at += sizeof lengths + lengths[0] + body;
  }
  return found;
}

// Every send is a request: what waits for the client of one connection must not keep the other one waiting.
static void serve(Link* link, const std::vector<Stored>& messages, bool is_metadata, std::deque<Bytes>* kept) {
  ucp_request_param_t how = {};
  uint32_t number = 0;
  for (const Stored& each : messages) {
    if (is_metadata) {
      Bytes whole = {1, 0, 0, 0, 0};
      memcpy(whole.data() + 1, &number, 4);
      whole.insert(whole.end(), each.metadata.begin(), each.metadata.end());
      kept->push_back(std::move(whole));
      link->later(ucp_am_send_nbx(link->ep, 0, nullptr, 0, kept->back().data(), kept->back().size(), &how));
    } else if (each.has_body) {
      link->later(ucp_tag_send_nbx(link->ep, each.body.data(), each.body.size(), number, &how));
    }
    ++number;
  }
  if (is_metadata) {
    kept->push_back({0, 0, 0, 0, 0});
    memcpy(kept->back().data() + 1, &number, 4);
    link->later(ucp_am_send_nbx(link->ep, 0, nullptr, 0, kept->back().data(), 5, &how));
  }
}

static int server(int port, uint64_t metadata_tag, uint64_t data_tag, size_t clients) {
  std::vector<Stored> messages = stored();
  ucp_context_h context = new_context();
  Link listening(context);
  std::deque<ucp_conn_request_h> waiting;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ucp_listener_params_t params = {};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<sockaddr*>(&address);
  params.sockaddr.addrlen = sizeof(address);
  params.conn_handler.cb = [](ucp_conn_request_h request, void* arg) {
    static_cast<std::deque<ucp_conn_request_h>*>(arg)->push_back(request);
  };
  params.conn_handler.arg = &waiting;
  ucp_listener_h listener;
  check(ucp_listener_create(listening.worker, &params, &listener), "ucp_listener_create");
  printf("ready\n");
  fflush(stdout);
  std::vector<std::unique_ptr<Link>> links;
  std::deque<Bytes> kept;
  size_t ended = 0;
  while (ended < clients) {
    ucp_worker_progress(listening.worker);
    for (; !waiting.empty(); waiting.pop_front()) {
      links.push_back(std::make_unique<Link>(context));
      ucp_ep_params_t from = {};
      from.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
      from.conn_request = waiting.front();
      if (links.back()->open(from) != UCS_OK) links.pop_back();  // a client that tries another mode first
    }
    ended = 0;
    for (auto& link : links) {
      ucp_worker_progress(link->worker);
      ended += link->ended;
      for (uint64_t tag : {metadata_tag, data_tag}) {
        ucp_tag_recv_info_t info;
        ucp_tag_message_h message = ucp_tag_probe_nb(link->worker, tag, ~0ull, 1, &info);
        if (message == nullptr) continue;
        link->receive(message, info);  // any name will do
        serve(link.get(), messages, tag == metadata_tag, &kept);
      }
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  auto number = [&](int i) { return strtoull(argv[i], nullptr, 10); };
  if (argc == 7 && !strcmp(argv[1], "client")) return client(argv[2], number(3), number(4), number(5), argv[6]);
  if ((argc == 5 || argc == 6) && !strcmp(argv[1], "server"))
    return server(number(2), number(3), number(4), argc == 6 ? number(5) : 2);
  fail("ucx_peer client HOST PORT METADATA_TAG DATA_TAG IDENT | server PORT METADATA_TAG DATA_TAG [CLIENTS]");
}
