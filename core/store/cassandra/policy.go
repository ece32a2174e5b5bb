package cassandra

import (
	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// policy picks nodes: replicas of the key first, those of the rack before others, none of
// another datacenter.
func policy(datacenter, rack string) gocql.HostSelectionPolicy {
	if rack == "" {
		near := careful{gocql.DCAwareRoundRobinPolicy(datacenter)}
		return gocql.TokenAwareHostPolicy(near, gocql.ShuffleReplicas())
	}
	near := gocql.RackAwareRoundRobinPolicy(datacenter, rack)
	tiers, ok := near.(gocql.HostTierer)
	if !ok {
		return gocql.TokenAwareHostPolicy(careful{near}, gocql.ShuffleReplicas())
	}
	return gocql.TokenAwareHostPolicy(tiered{careful{near}, tiers}, gocql.ShuffleReplicas(), gocql.NonLocalReplicasFallback())
}

// careful takes the nil host that the token-aware policy asks about while it knows no
// node, as when all went away; the driver's policies panic at it.
type careful struct{ gocql.HostSelectionPolicy }

// IsLocal says whether a host is near.
func (c careful) IsLocal(host *gocql.HostInfo) bool {
	return host != nil && c.HostSelectionPolicy.IsLocal(host)
}

// tiered is careful about racks.
type tiered struct {
	careful
	tiers gocql.HostTierer
}

// HostTier says how far a host is.
func (t tiered) HostTier(host *gocql.HostInfo) uint {
	if host == nil {
		return t.tiers.MaxHostTier()
	}
	return t.tiers.HostTier(host)
}

// MaxHostTier is how far a host can be.
func (t tiered) MaxHostTier() uint { return t.tiers.MaxHostTier() }
