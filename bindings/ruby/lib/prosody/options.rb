# frozen_string_literal: true

module Prosody
  # The names and types of the options; docs/configuration.md explains each.
  # @private
  OPTIONS = {
    string: %i[
      group_id source_system failure_topic idempotence_version subsystem log telemetry_topic
      peer_bind_address peer_advertised_connect peer_network_name peer_tls_ca peer_tls_cert peer_tls_key
      cassandra_keyspace cassandra_user cassandra_password cassandra_datacenter cassandra_rack
      cassandra_replication cassandra_tls_ca cassandra_tls_cert cassandra_tls_key
      state_cache_dir state_disk_cache_size state_owned_cache_size state_memtable_size state_read_cache_size
      message_spans timer_spans
    ],
    word: %i[invalid_records cassandra_schema],
    mode: %i[mode],
    list: %i[bootstrap_servers subscribed_topics allowed_events cassandra_nodes],
    bool: %i[
      mock defer_enabled monopolization_enabled telemetry_enabled status_page
      peer_tls peer_tls_verify cassandra_tls cassandra_tls_verify
    ],
    int: %i[
      max_concurrency max_uncommitted max_retries idempotence_cache_size defer_store_cache_size
      loader_cache_size loader_discard_threshold monopolization_cache_size scheduler_cache_size
      peer_cache_capacity
    ],
    float: %i[
      defer_failure_threshold monopolization_threshold scheduler_failure_weight scheduler_wait_weight
    ],
    duration: %i[
      timeout commit_interval poll_interval shutdown_timeout stall_threshold statistics_interval
      idempotence_ttl slab_size send_timeout retry_base max_retry_delay defer_base defer_max_delay
      defer_failure_window loader_seek_timeout monopolization_window scheduler_max_wait
      peer_registration_ttl cassandra_retention state_recovery_delay
    ],
    port: %i[probe_port],
    read_cache: %i[state_read_cache],
    collections: %i[state_collections],
    properties: %i[kafka]
  }.flat_map { |type, names| names.map { |name| [name, type] } }.to_h.freeze
  private_constant :OPTIONS
end
