// Package certs creates certificates for servers on loopback and for their clients.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Validity is longer than any run, but short enough that a leftover credential soon expires.
const Validity = 7 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// KeyPair is a certificate and its private key, as PEM.
type KeyPair struct {
	Cert, Key []byte
}

// NewAuthority creates an authority whose certificate has the common name.
func NewAuthority(name string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("cannot create the authority's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &Authority{key: key}
	a.pem, err = a.sign(template, template, key.Public())
	if err != nil {
		return nil, fmt.Errorf("cannot sign the authority's certificate: %w", err)
	}
	block, _ := pem.Decode(a.pem)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("cannot read back the authority's certificate: %w", err)
	}
	return a, nil
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Server signs a certificate for a server on loopback that can also be reached by the names.
func (a *Authority) Server(name string, names ...string) (KeyPair, error) {
	return a.pair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client signs a certificate that authenticates its holder as the user, in the groups.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
func (a *Authority) Client(user string, groups []string) (KeyPair, error) {
	return a.pair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// TLS returns the configuration of a server that presents the certificate and serves HTTP/2 and HTTP/1.1.
func (p KeyPair) TLS() (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"h2", "http/1.1"},
	}, nil
}

func (a *Authority) pair(template *x509.Certificate) (KeyPair, error) {
	key, err := newKey()
	if err != nil {
		return KeyPair{}, fmt.Errorf("cannot create a key for %s: %w", template.Subject.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	certPEM, err := a.sign(template, a.cert, key.Public())
	if err != nil {
		return KeyPair{}, fmt.Errorf("cannot sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return KeyPair{certPEM, keyPEM}, err
}

func (a *Authority) sign(template, parent *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(Validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// NewKeyPEM makes a private key without a certificate.
func NewKeyPEM() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("cannot create a key: %w", err)
	}
	return encodeKey(key)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
